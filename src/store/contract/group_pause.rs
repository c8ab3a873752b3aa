//! The pause of a group, and the request for one.

use lease_broker_model::key::Key;

/// The maximum number of paused groups of a queue. A claim reads all of them.
pub const MAX_PAUSED_GROUPS: usize = 1_000;

/// A request to pause a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroupPause {
    /// The reason, at most 1,024 characters.
    pub reason: String,
    /// The name of the caller. Empty: it is not known.
    pub actor: String,
    /// The time at which the pause ends by itself, by the store's clock, in milliseconds since 1970-01-01T00:00:00Z.
    pub until: Option<i64>,
}

/// The pause of a group. Times are by the store's clock, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupPause {
    /// The group: one value, that of the column that names the groups.
    pub group: Key,
    /// The reason.
    pub reason: String,
    /// The name of the caller who paused it. Empty: it is not known.
    pub actor: String,
    /// The time at which it began.
    pub pause_time: i64,
    /// The time at which it ends by itself. `None`: it does not.
    pub until: Option<i64>,
}
