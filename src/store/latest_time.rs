//! The latest time that the store's clock can show.

use tokio::time::Instant;

/// The latest time that the store's clock shows, unless it was stepped forward. It grows as time passes, so an operation that waits
/// for a lock does not take the wait for a step.
#[derive(Clone, Copy, Debug)]
pub struct LatestTime {
    start_time: i64,
    start: Instant,
}

impl LatestTime {
    /// Returns a bound that is `time` at the moment `start`, in milliseconds since 1970-01-01T00:00:00Z.
    pub fn new(time: i64, start: Instant) -> Self {
        Self {
            start_time: time,
            start,
        }
    }

    /// Returns the bound at a moment, in milliseconds since 1970-01-01T00:00:00Z.
    pub fn at(self, moment: Instant) -> i64 {
        let passed = moment.saturating_duration_since(self.start).as_millis();
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        self.start_time.saturating_add(passed)
    }

    /// Returns `time` or, if it is later than the bound, the bound.
    pub fn limit(latest: Option<Self>, time: i64) -> i64 {
        latest.map_or(time, |latest| time.min(latest.now()))
    }

    /// Returns the bound at the present moment.
    pub fn now(self) -> i64 {
        self.at(Instant::now())
    }
}
