//! Checks of a request's fields against the configured limits and the queue's bounds.
//!
//! Each check gets the field's path in the request and puts it into its error.

use std::time::Duration;

use lease_broker_model::queue::QueueSpec;

use lease_broker_store::Refusal;

use super::error::Error;
use crate::config::{Limits, duration_text};

/// UTF-16 units of a text for people, such as an error message or a reason, that are stored. The rest is cut off. SQL Server counts
/// them so.
const MAX_STORED_TEXT: usize = 1_024;
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
        check_nul(field, worker_id)?;
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
    stored_text(given)
}

/// Returns a text for people in the form in which every store can keep it: cut, and with U+FFFD in place of NUL, which some databases
/// cannot store.
pub(super) fn stored_text(text: &str) -> String {
    let mut units = 0;
    let fits = |char: &char| {
        units += char.len_utf16();
        units <= MAX_STORED_TEXT
    };
    let chars = text.chars().take_while(fits);
    chars
        .map(|char| {
            if char == '\0' {
                char::REPLACEMENT_CHARACTER
            } else {
                char
            }
        })
        .collect()
}

/// Checks a text that names or selects something. Some databases cannot compare NUL. Returns the problem, without the field.
pub(super) fn refuse_nul(text: &str) -> Result<(), String> {
    if text.contains('\0') {
        return Err("must not contain NUL".to_owned());
    }
    Ok(())
}

/// Does the same as [`refuse_nul`] for a field of a request.
pub(super) fn check_nul(field: &str, text: &str) -> Result<(), Error> {
    refuse_nul(text).map_err(|problem| Error::invalid(field, problem))
}

fn check_max(field: impl FnOnce() -> String, value: Duration, max: Duration) -> Result<(), Error> {
    if value > max {
        let [value, max] = [value, max].map(duration_text);
        let problem = format!("{value} is longer than the maximum of {max}");
        return Err(Error::limit(field(), problem, &value, &max));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_text_is_cut_between_characters_and_has_no_nul() {
        assert_eq!(stored_text("a\0b"), "a\u{fffd}b");
        let text = "a".to_owned() + &"🦀".repeat(1_023);
        assert_eq!(stored_text(&text).encode_utf16().count(), 1_023);
        assert_eq!(stored_text(&"a".repeat(1_025)).len(), 1_024);
    }
}
