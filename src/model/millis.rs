//! Durations in whole milliseconds, the unit in which both stores keep times.

use std::time::Duration;

/// Returns a duration in milliseconds. It is rounded up, so that a lease never ends before the promised time.
pub fn millis_rounded_up(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Returns the duration between two times in milliseconds; zero if `to` is earlier than `from`.
pub fn duration_between(from: i64, to: i64) -> Duration {
    Duration::from_millis(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}
