//! `completions`: prints shell completion scripts.

use std::io::{Write as _, stdout};

use clap::{Args, Command};
use clap_complete::Shell;

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
    /// `program`: all commands with their flags.
    pub(super) fn run(self, mut program: Command) {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "lease-broker", &mut script);
        // A reader such as `head` may close the pipe early. This is not an error.
        let _ = stdout().write_all(&script);
    }
}
