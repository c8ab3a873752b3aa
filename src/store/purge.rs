//! Requests and results of retention: the deletion of items that ended long ago.

use std::time::Duration;

use lease_broker_model::key::Key;

use crate::latest_time::LatestTime;

/// A step of a walk over a queue's table. With `completed_index` the walk visits only old items, in the order of the state's time and
/// then of the key. Without it the walk visits all rows in the order of the key.
#[derive(Clone, Debug)]
pub struct PurgeStep {
    /// The last row that the step before visited. `None`: the walk begins.
    pub after: Option<PurgePosition>,
    /// The age after which a completed item is old. `None`: never.
    pub completed: Option<Duration>,
    /// The age after which a dead item is old. `None`: never.
    pub dead: Option<Duration>,
    /// The latest time that the store's clock can show. Ages are counted until this time if the clock shows a later one, so a clock that
    /// was stepped forward makes no item old. `None`: not known.
    pub latest: Option<LatestTime>,
    /// The maximum number of rows to visit.
    pub limit: usize,
    /// True: old items are deleted. False: they are only counted.
    pub delete: bool,
}

/// A place in a walk.
#[derive(Clone, Debug, PartialEq)]
pub struct PurgePosition {
    /// The key of the row.
    pub key: Key,
    /// The time of the row's state, in the notation of the store. `None`: the walk is in the order of the key.
    pub state_time: Option<String>,
}

/// The result of a [`PurgeStep`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Purged {
    /// The number of old items that were deleted or, if the step did not delete, found.
    pub old: usize,
    /// The last row visited. `None`: the walk has reached its end.
    pub last: Option<PurgePosition>,
}

/// The moment before which a completed row of an archive is old.
#[derive(Clone, Copy, Debug)]
pub enum ArchiveCutoff {
    /// The rows are older than `age` by the store's clock, so the moment is a later one at each call.
    Age {
        /// The age after which a row is old.
        age: Duration,
        /// As in [`PurgeStep`].
        latest: Option<LatestTime>,
    },
    /// A time in milliseconds since 1970-01-01T00:00:00Z, the same one at each call.
    Time(i64),
}

/// The right of one broker to delete the old items of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionTurn {
    /// The broker that asked has the turn.
    Taken,
    /// Another broker has it for this duration.
    Busy(Duration),
}

impl RetentionTurn {
    /// The duration of the longest turn. A turn that has more time left was taken before the clock was put back, and is free.
    pub const LONGEST: Duration = Duration::from_secs(3_600);
}
