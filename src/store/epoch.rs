//! Epochs: what keeps fencing tokens apart if a database goes back in time, after a restore or on an asynchronous replica.
//!
//! Each claim gives a token that is greater than the fence of the epoch, which is 0 at first. A new epoch has the present time in
//! microseconds since 1970 as its fence. No item is claimed a million times per second, so this is greater than every token of an
//! earlier epoch, and it stays below 2^53, the limit of whole numbers in JavaScript, until the year 2255.
//!
//! A broker notices a database that goes back in time by its generation, a number that each announcement of a broker raises.

use std::fmt::Display;
use std::time::UNIX_EPOCH;

use lease_broker_model::queue::QueueSpec;
use uuid::Uuid;

use super::instance::served_queues;
use super::{ListedBroker, StoreError};

/// The beginning of a new epoch, as its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEpoch {
    /// Every later fencing token is greater.
    pub fence: i64,
    /// The name of each queue that has a table, with the number of leases that were ended.
    pub ended_leases: Vec<(String, u64)>,
    /// The queues that brokers served in the state that was left, and that were not named. Their leases go on.
    pub left_queues: Vec<String>,
    /// The operations that ran. Each is cancelled.
    pub cancelled_operations: Vec<CancelledOperation>,
}

/// An operation on many items that was cancelled because an epoch began. It may have ended in the state that was left, and its items
/// are perhaps the reason for the restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelledOperation {
    /// Its id.
    pub id: Uuid,
    /// The name of its queue.
    pub queue: String,
    /// The name of its kind.
    pub kind: String,
}

/// Returns the queues of these brokers that are not named.
pub(super) fn left_queues(brokers: &[ListedBroker], named: &[QueueSpec]) -> Vec<String> {
    let mut left = served_queues(brokers);
    for queue in named {
        left.remove(&*queue.name);
    }
    left.into_iter().map(str::to_owned).collect()
}

/// Returns the fence of an epoch that begins now.
pub(super) fn fence_now() -> i64 {
    let since_1970 = UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the fence of an epoch that begins now and follows one with the fence `last`.
///
/// # Errors
/// [`StoreError::Misconfigured`] if the clock of this machine is behind the beginning of the last epoch.
pub(super) fn fence_after(last: i64) -> Result<i64, StoreError> {
    let fence = fence_now();
    if fence > last {
        return Ok(fence);
    }
    Err(StoreError::Misconfigured(format!(
        "the clock of this machine is behind the last restore of the database ({fence} and {last} us since 1970), so fencing tokens \
         would be given twice; correct the clock"
    )))
}

/// Returns the error of a broker whose database has gone back in time, from one generation to another.
pub(super) fn went_back(database: &str, known: impl Display, found: impl Display) -> StoreError {
    StoreError::Io(format!(
        "{database} went back in time, from generation {known} to {found}: an older state was restored, or a replica \
         without the last changes took over. Leases could be given twice with the same fencing token, so the broker refuses every \
         call until `lease-broker restore` has begun a new epoch (docs/backup.md)"
    ))
}
