//! Pauses of queues.

use std::time::Duration;

use lease_broker_store::{NewPause, PauseMode, QueuePause};

use super::{Actor, Operator, cut_reason};
use crate::broker::error::Error;

/// The longest pause with an end, counted from the clock of this process.
const MAX_PAUSE: Duration = Duration::from_secs(366 * 86_400);

impl Operator {
    /// Pauses a queue, or replaces its pause. `until`: the time at which it ends by itself, in milliseconds since
    /// 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], [`Error::InvalidField`] and [`Error::LimitExceeded`] (`until`), and those of the store.
    pub async fn pause_queue(
        &self,
        actor: &Actor,
        queue: &str,
        mode: PauseMode,
        reason: &str,
        until: Option<i64>,
    ) -> Result<QueuePause, Error> {
        let (index, _) = self.queue(queue)?;
        let now = time::UtcDateTime::now().unix_timestamp_nanos() / 1_000_000;
        // Until the year 292,000,000.
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let latest = now.saturating_add(i64::try_from(MAX_PAUSE.as_millis()).unwrap_or(i64::MAX));
        match until {
            Some(until) if until <= now => {
                return Err(Error::invalid("until", "must be in the future"));
            }
            Some(until) if until > latest => {
                return Err(Error::limit(
                    "until",
                    "is more than 366 days from now".to_owned(),
                    &until,
                    &latest,
                ));
            }
            _ => {}
        }
        let pause = NewPause {
            mode,
            reason: cut_reason(reason),
            actor: actor.name.clone(),
            until,
        };
        Ok(self.store()?.pause(index, pause).await?)
    }

    /// Ends the pause of a queue, and wakes its claims that wait at this broker. Returns the pause. `None`: there was none.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], and those of the store.
    pub async fn resume_queue(&self, queue: &str) -> Result<Option<QueuePause>, Error> {
        let (index, _) = self.queue(queue)?;
        let ended = self.store()?.resume(index).await?;
        if let Some(wakeups) = self.wakeups(index) {
            wakeups.notify_item_ready_in(Duration::ZERO);
        }
        Ok(ended)
    }
}
