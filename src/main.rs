//! The `lease-broker` command.

use std::process::ExitCode;

use clap::Parser as _;
use lease_broker::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("lease-broker: {failure}");
            failure.exit_code()
        }
    }
}
