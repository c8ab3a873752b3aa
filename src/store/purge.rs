//! Requests and results of retention: the deletion of items that ended long ago.

use std::time::Duration;

use lease_broker_model::key::Key;

/// A step of a walk over a queue's table, in the order of the key.
#[derive(Clone, Debug)]
pub struct PurgeStep {
    /// The key of the last row that the step before visited. `None`: the walk begins.
    pub after: Option<Key>,
    /// The age after which a completed item is old. `None`: never.
    pub completed: Option<Duration>,
    /// The age after which a dead item is old. `None`: never.
    pub dead: Option<Duration>,
    /// The maximum number of rows to visit.
    pub limit: usize,
    /// True: old items are deleted. False: they are only counted.
    pub delete: bool,
}

/// The result of a [`PurgeStep`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Purged {
    /// The number of old items that were deleted or, if the step did not delete, found.
    pub old: usize,
    /// The key of the last row visited. `None`: the walk has reached the end of the table.
    pub last: Option<Key>,
}

/// The right of one broker to delete the old items of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionTurn {
    /// The broker that asked has the turn.
    Taken,
    /// Another broker has it for this duration.
    Busy(Duration),
}
