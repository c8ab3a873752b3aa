//! What a call may ask for.

use std::time::Duration;

use super::error::Error;
use crate::config::Limits;
use crate::queue::QueueSpec;

/// Characters of an error that are kept on the row.
pub(super) const ERROR_LENGTH: usize = 1_024;
/// The longest delay of an item: a year. What lies further off is a mistake in a unit.
const LONGEST_DELAY: Duration = Duration::from_secs(366 * 86_400);

impl Limits {
    /// Refuses a number of items of which there must be at least one.
    pub(super) fn count(&self, field: &str, count: usize) -> Result<(), Error> {
        if count == 0 {
            return Err(Error::invalid(field, "must be at least 1"));
        }
        self.at_most(field, count)
    }

    /// Refuses a list that is too long.
    pub(super) fn at_most(&self, field: &str, count: usize) -> Result<(), Error> {
        if count > self.max_items {
            let most = self.max_items;
            return Err(Error::limit(
                field,
                format!("{count} items; a call has at most {most}"),
            ));
        }
        Ok(())
    }

    /// Refuses a worker id that is empty or too long.
    pub(super) fn worker(&self, field: &str, worker: &str) -> Result<(), Error> {
        let length = worker.chars().count();
        if length == 0 {
            return Err(Error::invalid(
                field,
                "must not be empty: name the worker, by host and process for example",
            ));
        }
        if worker.contains('\0') {
            return Err(Error::invalid(field, "must not contain NUL"));
        }
        if length > self.max_worker_id {
            let most = self.max_worker_id;
            return Err(Error::limit(
                field,
                format!("{length} characters; a worker id has at most {most}"),
            ));
        }
        Ok(())
    }

    /// Refuses a wait that is too long.
    pub(super) fn wait(&self, field: &str, wait: Duration) -> Result<(), Error> {
        at_most(field, wait, self.max_wait)
    }
}

/// Returns how long a lease of this queue lasts when `asked` for this long.
pub(super) fn lease(
    queue: &QueueSpec,
    field: &str,
    asked: Option<Duration>,
) -> Result<Duration, Error> {
    let bounds = queue.lease;
    let Some(asked) = asked else {
        return Ok(bounds.default);
    };
    if asked < bounds.min {
        let [asked, least] = [asked, bounds.min].map(humantime::format_duration);
        return Err(Error::invalid(
            field,
            format!("{asked} is shorter than {least}"),
        ));
    }
    at_most(field, asked, bounds.max)?;
    Ok(asked)
}

/// Refuses a delay that is too long.
pub(super) fn delay(field: impl Into<String>, delay: Duration) -> Result<(), Error> {
    at_most(field, delay, LONGEST_DELAY)
}

fn at_most(field: impl Into<String>, asked: Duration, most: Duration) -> Result<(), Error> {
    if asked > most {
        let [asked, most] = [asked, most].map(humantime::format_duration);
        return Err(Error::limit(
            field,
            format!("{asked} is longer than {most}"),
        ));
    }
    Ok(())
}
