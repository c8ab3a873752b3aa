//! The `lease-broker` program: parses the command line, runs the command, and turns its result into an exit code.

use std::process::ExitCode;

use clap::Parser as _;
use lease_broker::cli::{Cli, EXIT_USAGE};

/// Calls and rows cause many short-lived allocations on a few threads, including those of `SQLite`. mimalloc serves
/// this pattern faster than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // clap returns the text of --help and --version as an error too. Only a real error goes to standard error.
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                EXIT_USAGE.into()
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lease-broker: {error}");
            error.exit_code()
        }
    }
}
