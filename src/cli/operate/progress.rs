//! Follows an operation on many items to its end, with a progress bar on a terminal.

use std::future::pending;
use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lease_broker_proto as proto;
use tokio::time::sleep;

use super::admin::{Admin, continue_hint};
use super::change_kind::ChangeKind;
use crate::cli::CommandError;
use crate::cli::output::plural;
use crate::cli::stop_requests::StopRequests;
use crate::grpc::Words as _;

/// The time between two looks at the operation.
const INTERVAL: Duration = Duration::from_millis(200);
/// The time between two tries to reach a service that does not answer, and their number.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_RETRIES: u32 = 60;

/// Waits until the operation has ended, and returns it. If the operation is on a database that this process has opened, runs it.
///
/// `total`: the number of items that the operation will change. `None`: it is not known.
///
/// # Errors
/// Those of the calls. Exit code 4: a signal has interrupted this process, which runs the operation.
pub(super) async fn follow(
    admin: &Admin,
    operation_id: &str,
    total: Option<u64>,
) -> Result<proto::Operation, CommandError> {
    let bar = progress_bar(total);
    let ended = tokio::select! {
        ended = wait_for_end(admin, operation_id, &bar) => ended,
        never = admin.run_operations() => match never {},
        error = interruption(admin, operation_id) => Err(error),
    };
    bar.finish_and_clear();
    ended
}

/// Waits for a signal. Returns an error with the commands that continue or cancel the operation. For a service it waits for ever and lets
/// the signal end this process, because brokers run the operation.
async fn interruption(admin: &Admin, operation_id: &str) -> CommandError {
    if !admin.runs_operations() {
        return pending().await;
    }
    match StopRequests::listen() {
        Ok(mut stop) => stop.next().await,
        Err(error) => return error,
    }
    let hint = continue_hint(operation_id);
    CommandError::part_way(format!(
        "operation {operation_id} was interrupted; {hint}, and `lease-broker operations cancel {operation_id}` ends it"
    ))
}

async fn wait_for_end(
    admin: &Admin,
    operation_id: &str,
    bar: &ProgressBar,
) -> Result<proto::Operation, CommandError> {
    let mut retries = 0;
    loop {
        let request = proto::GetOperationRequest {
            operation_id: operation_id.to_owned(),
        };
        let pause = match admin.get_operation(request).await {
            Ok(found) => {
                retries = 0;
                let operation = found.operation.unwrap_or_default();
                bar.set_message(operation.state().word());
                bar.set_position(operation.changed.unsigned_abs());
                if operation.state() != proto::OperationState::Running {
                    return Ok(operation);
                }
                INTERVAL
            }
            Err(error) if error.is_outage() && retries < MAX_RETRIES => {
                retries += 1;
                bar.set_message("the service does not answer");
                RETRY_INTERVAL
            }
            Err(error) if error.is_outage() => {
                let hint = format!("operation {operation_id} continues when a broker runs");
                return Err(error.with_hint(&hint));
            }
            Err(error) => return Err(error),
        };
        sleep(pause).await;
    }
}

/// Returns a progress bar on standard error, or a hidden one if that is not a terminal.
fn progress_bar(total: Option<u64>) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{msg} {wide_bar} {human_pos} of {human_len}, {per_sec}, {eta} left",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {msg}: {human_pos}, {per_sec}",
        ),
    };
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Returns the error of an operation that did not do all its work.
///
/// # Errors
/// Exit code 2: nothing was changed, because no item fits. Exit code 4: the operation failed or was cancelled, or the database refused
/// some items.
pub(super) fn check_end(operation: &proto::Operation) -> Result<(), CommandError> {
    let done = match ChangeKind::of_operation(operation) {
        Some(kind) => kind.done(operation.changed),
        None => format!("{} items were changed", operation.changed),
    };
    let id = &operation.operation_id;
    let mut text = match operation.state() {
        proto::OperationState::Done if operation.refused == 0 && operation.changed == 0 => {
            return Err(CommandError::nothing_matched(format!(
                "no item of queue {} fits",
                operation.queue
            )));
        }
        proto::OperationState::Done if operation.refused == 0 => return Ok(()),
        proto::OperationState::Done => {
            let refused = plural(operation.refused.unsigned_abs(), "item");
            format!("the database refused {refused}: {done}")
        }
        proto::OperationState::Cancelled => {
            format!("operation {id} was cancelled part-way: {done}")
        }
        proto::OperationState::Failed => format!("operation {id} failed part-way: {done}"),
        proto::OperationState::Running | proto::OperationState::Unspecified => {
            format!("operation {id} has not ended: {done}")
        }
    };
    if !operation.error.is_empty() {
        text = format!("{text}; {}", operation.error);
    }
    Err(CommandError::part_way(text))
}
