//! `completions`: prints shell completion scripts.

use std::io::{Write as _, stdout};

use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;

use super::CommandError;

/// The name of the program, and the environment variable by which a script asks it.
const PROGRAM: &str = "lease-broker";
const VARIABLE: &str = "COMPLETE";

/// Print a shell completion script
///
/// The script asks this program how the line can continue: commands, flags, and the names of queues, keys, operations and brokers at the
/// service or in the database that the line names. If that takes longer than 300 ms, there are none. Print the script again after an
/// upgrade, or let the shell do it at each start.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker completions bash > /etc/bash_completion.d/lease-broker
  lease-broker completions zsh > ~/.zfunc/_lease-broker
  lease-broker completions fish > ~/.config/fish/completions/lease-broker.fish")]
pub(super) struct Completions {
    /// Shell to print the script for
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let (shells, name) = (Shells::builtins(), self.shell.to_string());
        let shell = shells.completer(&name);
        let shell = shell.ok_or_else(|| CommandError::usage(format!("no script for {name}")))?;
        let mut script = Vec::new();
        let written = shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script);
        written.map_err(|error| CommandError::io(format!("the script: {error}")))?;
        // A reader such as `head` may close the pipe early. This is not an error.
        let _ = stdout().write_all(&script);
        Ok(())
    }
}
