//! The start and the end of a program: parses its command line, runs the command, and turns the result into an exit code.

use std::io::{Write as _, stderr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use super::command_error::{CommandError, EXIT_USAGE};
use super::output::check_written;

/// Runs a program with its command line. `name` begins each error message.
pub fn start<C: Parser>(
    name: &str,
    command: impl FnOnce(C) -> Result<(), CommandError>,
) -> ExitCode {
    let arguments = match C::try_parse() {
        Ok(arguments) => arguments,
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
    match command(arguments).and_then(|()| check_written()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(format!("{name}: {error}"));
            error.exit_code()
        }
    }
}

/// Writes a message to standard error. Gives up after a second, so that the process ends even if the reader of standard
/// error has stalled.
fn report(message: String) {
    let (written, is_written) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Fails if the terminal or the reader is gone.
        let _ = writeln!(stderr(), "{message}");
        let _ = written.send(());
    });
    let _ = is_written.recv_timeout(Duration::from_secs(1));
}
