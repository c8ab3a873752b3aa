//! The clock of the SQLite store. Times are milliseconds since 1970-01-01T00:00:00Z.
//!
//! SQLite runs inside the broker, so this is the clock of the host. All brokers that share a file run on one host and
//! have the same clock.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lease_broker_model::millis::duration_between;

use crate::LeaseExpiry;

/// Returns the present time in milliseconds since 1970-01-01T00:00:00Z. Tests use a clock that they can advance.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Returns the clock of the host.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
    })
}

/// Returns the expiry of a lease as seen at `now`.
pub(super) fn lease_expiry(expire_time: i64, now: i64) -> LeaseExpiry {
    LeaseExpiry {
        expire_time,
        time_left: duration_between(now, expire_time),
    }
}
