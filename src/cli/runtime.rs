//! Runs the asynchronous work of a command.

use tokio::runtime::Builder;

use super::command_error::CommandError;

/// Runs the work on as many threads as the host has.
///
/// # Errors
/// Those of the work, or the runtime cannot be started.
pub fn block_on(work: impl Future<Output = Result<(), CommandError>>) -> Result<(), CommandError> {
    run(&mut Builder::new_multi_thread(), work)
}

/// Runs the work on the threads of this builder.
pub(super) fn run(
    runtime: &mut Builder,
    work: impl Future<Output = Result<(), CommandError>>,
) -> Result<(), CommandError> {
    let runtime = runtime.enable_all().build();
    runtime
        .map_err(|error| CommandError::io(format!("cannot start the async runtime: {error}")))?
        .block_on(work)
}
