//! The trust in the store's clock: it has run without a step for some time, as far as this broker knows.
//!
//! Retention deletes by the age of an item. For a clock that is ahead every item is old, and a deleted item does not come back
//! when the clock is right again. A machine often starts with a wrong clock and corrects it soon, so the start of the broker counts as a
//! step.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The time without a step after which the clock is trusted.
pub(super) const CLOCK_TRUST: Duration = Duration::from_secs(600);

/// The store's clock. The reapers of all queues note its steps.
#[derive(Debug)]
pub(super) struct SteadyClock {
    /// The time of the last step, or of the start.
    since: Mutex<Instant>,
    trust_after: Duration,
}

impl SteadyClock {
    /// Begins with the start of the broker. The clock is trusted if it runs for `trust_after` without a step.
    pub(super) fn new(trust_after: Duration) -> Self {
        Self {
            since: Mutex::new(Instant::now()),
            trust_after,
        }
    }

    /// Notes a step that was seen now.
    pub(super) fn note_step(&self) {
        *self.since.lock() = Instant::now();
    }

    /// Returns whether no step was noted lately.
    pub(super) fn is_trusted(&self) -> bool {
        Instant::now() >= self.trusted_from()
    }

    /// Waits until no step was noted lately.
    pub(super) async fn wait_for_trust(&self) {
        while !self.is_trusted() {
            tokio::time::sleep_until(self.trusted_from()).await;
        }
    }

    fn trusted_from(&self) -> Instant {
        *self.since.lock() + self.trust_after
    }
}
