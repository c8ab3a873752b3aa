//! The trust in the store's clock: it has run without a step for some time, as far as this broker knows.
//!
//! Retention deletes by the age of an item. For a clock that is ahead every item is old, and a deleted item does not come back
//! when the clock is right again. A machine often starts with a wrong clock and corrects it soon, so the start of the broker counts as a
//! step.

use std::time::Duration;

use lease_broker_store::LatestTime;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::clock_watch::ClockWatch;

/// The time without a step after which the clock is trusted.
pub(super) const CLOCK_TRUST: Duration = Duration::from_secs(600);

/// The store's clock, as the reapers of all queues read it.
#[derive(Debug)]
pub(super) struct SteadyClock {
    seen: Mutex<Seen>,
    /// Notified each time when a reaper has seen the clock.
    is_seen: Notify,
    trust_after: Duration,
}

/// The readings of the reapers.
#[derive(Debug)]
struct Seen {
    /// The time of the last step, or of the start.
    since: Instant,
    /// The watch of one queue begins with its first reading. This one has those of all queues, so that the first one of a queue is no
    /// excuse for a step.
    watch: ClockWatch,
}

impl SteadyClock {
    /// Begins with the start of the broker. The clock is trusted if it runs for `trust_after` without a step.
    pub(super) fn new(trust_after: Duration) -> Self {
        let seen = Seen {
            since: Instant::now(),
            watch: ClockWatch::default(),
        };
        Self {
            seen: seen.into(),
            is_seen: Notify::new(),
            trust_after,
        }
    }

    /// Takes the time that the clock showed between `start` and `end`. `is_step`: for the queue's own watch, this is a step.
    pub(super) fn observe(&self, start: Instant, end: Instant, time: i64, is_step: bool) {
        let mut seen = self.seen.lock();
        let step = seen.watch.observe(start, end, time, false);
        if is_step || step.is_some() {
            seen.since = end;
        }
        drop(seen);
        self.is_seen.notify_waiters();
    }

    /// Returns the latest time that the clock can show without a step. `None`: the clock is not trusted.
    pub(super) fn latest(&self) -> Option<LatestTime> {
        let (seen, now) = (self.seen.lock(), Instant::now());
        let is_trusted = now >= seen.since + self.trust_after;
        seen.watch.latest(now).filter(|_| is_trusted)
    }

    /// Waits until the clock is trusted.
    pub(super) async fn wait_for_trust(&self) {
        loop {
            let is_seen = self.is_seen.notified();
            if self.latest().is_some() {
                return;
            }
            is_seen.await;
        }
    }
}
