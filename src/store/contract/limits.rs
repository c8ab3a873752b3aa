//! The limits of a queue in the database, and a change of them.

use std::time::Duration;

use lease_broker_model::rate::Rate;

/// A change of limits. `None`: the limit is not changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitChange {
    /// The maximum number of leases of the queue. 0: any number.
    pub max_leases: Option<u32>,
    /// The rate: items, time, burst. 0 items: no rate.
    pub rate: Option<(u32, Duration, u32)>,
    /// The maximum number of leases of a group. 0: any number.
    pub group_max_leases: Option<u32>,
    /// The rate of each group, as [`Self::rate`].
    pub group_rate: Option<(u32, Duration, u32)>,
}

/// The limits of a queue. `None`: there is no such limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLimitValues {
    /// The maximum number of leases of the queue.
    pub max_leases: Option<u32>,
    /// The number of items that are given out per time.
    pub rate: Option<Rate>,
    /// The maximum number of leases of a group.
    pub group_max_leases: Option<u32>,
    /// The number of items of each group that are given out per time.
    pub group_rate: Option<Rate>,
}
