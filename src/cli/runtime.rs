//! Runs the asynchronous work of a command.

use std::time::Duration;

use tokio::runtime::Builder;

use super::command_error::CommandError;

/// The time for which a command that is done waits for files that do not answer.
const LAST_READS: Duration = Duration::from_secs(1);

/// Runs the work on as many threads as the host has.
///
/// # Errors
/// Those of the work, or the runtime cannot be started.
pub fn block_on(work: impl Future<Output = Result<(), CommandError>>) -> Result<(), CommandError> {
    run(&mut Builder::new_multi_thread(), work)
}

/// Runs the work on the threads of this builder.
pub(super) fn run<T>(
    runtime: &mut Builder,
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = runtime.enable_all().build();
    let runtime = runtime
        .map_err(|error| CommandError::io(format!("cannot start the async runtime: {error}")))?;
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_READS);
    done
}
