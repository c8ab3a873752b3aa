//! `completions`: prints shell completion scripts.

use std::io::{Write as _, stdout};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker completions bash > /etc/bash_completion.d/lease-broker
  lease-broker completions zsh > ~/.zfunc/_lease-broker")]
pub(super) struct Completions {
    /// Shell to print the script for
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "lease-broker", &mut script);
        // A reader such as `head` may close the pipe early. This is not an error.
        let _ = stdout().write_all(&script);
    }
}
