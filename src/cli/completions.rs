//! `completions`: scripts that complete the command line in a shell.

use std::io::{Write as _, stdout};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;

/// Print a script that completes lease-broker's command line in a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker completions bash > /etc/bash_completion.d/lease-broker
  lease-broker completions zsh > ~/.zfunc/_lease-broker")]
pub(super) struct Completions {
    /// Shell that the script is for
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "lease-broker", &mut script);
        // A reader that has gone away has seen enough.
        let _ = stdout().write_all(&script);
    }
}
