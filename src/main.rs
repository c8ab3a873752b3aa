//! The `lease-broker` command.

use std::process::ExitCode;

use clap::Parser as _;
use lease_broker::cli::{Cli, EXIT_USAGE};

/// Calls and rows are many short-lived allocations on a few threads, SQLite's among them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and versions that were asked for come this way too.
        Err(error) => {
            let _ = error.print();
            let wrong = error.use_stderr();
            return if wrong {
                EXIT_USAGE.into()
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("lease-broker: {failure}");
            failure.exit_code()
        }
    }
}
