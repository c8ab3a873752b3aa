//! The `lease-broker` program: parses the command line, runs the command, and turns its result into an exit code.

use std::process::ExitCode;
use std::time::Duration;

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
            report(format!("lease-broker: {error}"));
            error.exit_code()
        }
    }
}

/// Writes a message to standard error. Gives up after a second, so that the process ends even if the reader of standard
/// error has stalled.
fn report(message: String) {
    let (written, is_written) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        eprintln!("{message}");
        let _ = written.send(());
    });
    let _ = is_written.recv_timeout(Duration::from_secs(1));
}
