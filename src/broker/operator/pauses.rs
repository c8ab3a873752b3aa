//! Pauses of queues and of groups.

use std::time::Duration;

use lease_broker_model::key::{Key, rfc3339_of_millis};
use lease_broker_store::{
    GroupPause, MAX_PAUSED_GROUPS, NewGroupPause, NewPause, PauseMode, QueueIndex, QueuePause,
};

use super::{Actor, Operator};
use crate::broker::error::Error;
use crate::broker::limits::{check_nul, stored_text};

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
        check_until(until)?;
        let pause = NewPause {
            mode,
            reason: stored_text(reason),
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
        self.wake(index, Duration::ZERO);
        Ok(ended)
    }

    /// Pauses a group, or replaces its pause. `until`: as in [`Self::pause_queue`].
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], [`Error::InvalidField`] (`group`, `until`), [`Error::LimitExceeded`] (`until`, `group` if too many
    /// groups are paused), and those of the store.
    pub async fn pause_group(
        &self,
        actor: &Actor,
        queue: &str,
        group: &str,
        reason: &str,
        until: Option<i64>,
    ) -> Result<GroupPause, Error> {
        let (index, _) = self.queue(queue)?;
        let group = self.parse_group(index, group)?;
        let checked = self.inspect.check_group_type(index, &group);
        checked.map_err(|problem| Error::invalid("group", problem))?;
        check_until(until)?;
        let pause = NewGroupPause {
            reason: stored_text(reason),
            actor: actor.name.clone(),
            until,
        };
        let paused = self.store()?.pause_group(index, group, pause).await?;
        paused.ok_or_else(|| {
            let max = MAX_PAUSED_GROUPS;
            let problem = format!("cannot be paused: {max} groups of the queue are paused");
            Error::limit("group", problem, &(max + 1), &max)
        })
    }

    /// Ends the pause of a group, and wakes the claims of the queue that wait at this broker. Returns the pause. `None`: there was
    /// none.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], [`Error::InvalidField`] (`group`), and those of the store.
    pub async fn resume_group(
        &self,
        queue: &str,
        group: &str,
    ) -> Result<Option<GroupPause>, Error> {
        let (index, _) = self.queue(queue)?;
        let group = self.parse_group(index, group)?;
        let ended = self.store()?.resume_group(index, group).await?;
        self.wake(index, Duration::ZERO);
        Ok(ended)
    }

    fn parse_group(&self, queue: QueueIndex, text: &str) -> Result<Key, Error> {
        check_nul("group", text)?;
        let parsed = self.inspect.parse_group(queue, text);
        parsed.map_err(|problem| Error::invalid("group", problem))
    }
}

/// Checks the end of a pause.
fn check_until(until: Option<i64>) -> Result<(), Error> {
    let now = time::UtcDateTime::now().unix_timestamp_nanos() / 1_000_000;
    // Until the year 292,000,000.
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let latest = now.saturating_add(i64::try_from(MAX_PAUSE.as_millis()).unwrap_or(i64::MAX));
    match until {
        Some(until) if until <= now => Err(Error::invalid("until", "must be in the future")),
        Some(until) if until > latest => {
            let problem = "is more than 366 days from now".to_owned();
            Err(Error::LimitExceeded {
                field: "until".to_owned(),
                problem,
                value: None,
                max: rfc3339_of_millis(latest),
            })
        }
        _ => Ok(()),
    }
}
