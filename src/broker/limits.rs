//! Checks of a request's fields against the configured limits and the queue's bounds.
//!
//! Each check gets the field's path in the request and puts it into its error.

use std::time::Duration;

use lease_broker_model::queue::QueueSpec;

use lease_broker_store::Refusal;

use super::error::Error;
use crate::config::{Limits, duration_text};

/// Characters of a failure's error message that are stored in the row. The rest is cut off.
pub(super) const MAX_ERROR_LENGTH: usize = 1_024;
/// The longest delay of an item: 366 days. A longer delay is almost certainly given in the wrong unit.
const MAX_DELAY: Duration = Duration::from_secs(366 * 86_400);

/// The limits that hold for the requests on every queue.
pub(super) struct RequestLimits(pub(super) Limits);

impl RequestLimits {
    /// Checks the number of items that a claim asks for: at least one.
    pub(super) fn check_max_items(&self, field: &str, max_items: usize) -> Result<(), Error> {
        if max_items == 0 {
            return Err(Error::invalid(field, "must be at least 1"));
        }
        self.check_length(field, max_items)
    }

    /// Checks the length of a list. It may be empty.
    pub(super) fn check_length(&self, field: &str, length: usize) -> Result<(), Error> {
        check_length(field, length, self.0.max_items)
    }

    /// Checks a worker id: not empty, no NUL character, not too long. The length is in UTF-16 units, as in the column of the owner on
    /// SQL Server, so that a worker id fits into every store.
    pub(super) fn check_worker_id(&self, field: &str, worker_id: &str) -> Result<(), Error> {
        let length = worker_id.encode_utf16().count();
        if length == 0 {
            return Err(Error::invalid(
                field,
                "must not be empty: name the worker, for example by its host and process",
            ));
        }
        if worker_id.contains('\0') {
            return Err(Error::invalid(field, "must not contain NUL"));
        }
        let max = self.0.max_worker_id;
        if length > max {
            let problem = format!("{length} UTF-16 units exceed the limit of {max} characters");
            return Err(Error::limit(field, problem, &length, &max));
        }
        Ok(())
    }

    /// Checks the time that a claim waits for an item.
    pub(super) fn check_wait(&self, field: &str, wait: Duration) -> Result<(), Error> {
        check_max(|| field.to_owned(), wait, self.0.max_wait)
    }
}

/// Checks the length of a list against the maximum number of items per call.
pub(super) fn check_length(field: &str, length: usize, max: usize) -> Result<(), Error> {
    if length > max {
        let problem = format!("{length} items exceed the limit of {max} items per call");
        return Err(Error::limit(field, problem, &length, &max));
    }
    Ok(())
}

/// Checks the duration that a caller wants for a lease of this queue.
pub(super) fn check_lease_duration(
    queue: &QueueSpec,
    field: &str,
    requested: Duration,
) -> Result<(), Error> {
    let bounds = queue.lease;
    if requested < bounds.min {
        let [requested, min] = [requested, bounds.min].map(duration_text);
        let problem = format!("{requested} is shorter than the minimum of {min}");
        return Err(Error::invalid(field, problem));
    }
    check_max(|| field.to_owned(), requested, bounds.max)
}

/// Checks the field `checkpoint` of an entry.
pub(super) fn check_checkpoint(
    queue: &QueueSpec,
    checkpoint: Option<&[u8]>,
) -> Result<(), Refusal> {
    let Some(checkpoint) = checkpoint else {
        return Ok(());
    };
    let refused = |problem| Err(Refusal::of_field("checkpoint", problem));
    let Some(max) = queue.max_checkpoint_bytes else {
        let problem = format!(
            "queue {:?} has no checkpoints: set checkpoint = true in its configuration",
            queue.name
        );
        return refused(problem);
    };
    let length = checkpoint.len();
    if length > max {
        let problem = format!("{length} bytes exceed the limit of {max} bytes");
        return refused(problem);
    }
    Ok(())
}

/// Checks an item's delay. The field's path is made only for an error, because a call can carry many items.
pub(super) fn check_delay(field: impl FnOnce() -> String, delay: Duration) -> Result<(), Error> {
    check_max(field, delay, MAX_DELAY)
}

/// Checks the delay of items whose leases are cancelled.
pub(super) fn check_cancel_delay(
    field: &str,
    delay: Duration,
    dead_letter: bool,
) -> Result<(), Error> {
    check_delay(|| field.to_owned(), delay)?;
    if dead_letter && !delay.is_zero() {
        return Err(Error::invalid(field, "cannot be combined with dead_letter"));
    }
    Ok(())
}

/// Returns the reason of a cancellation. A text stands for one that the caller has not given.
pub(super) fn cancel_reason(given: &str) -> String {
    let given = if given.is_empty() {
        "the lease was cancelled"
    } else {
        given
    };
    given.chars().take(MAX_ERROR_LENGTH).collect()
}

fn check_max(field: impl FnOnce() -> String, value: Duration, max: Duration) -> Result<(), Error> {
    if value > max {
        let [value, max] = [value, max].map(duration_text);
        let problem = format!("{value} is longer than the maximum of {max}");
        return Err(Error::limit(field(), problem, &value, &max));
    }
    Ok(())
}
