//! The load: how many workers do what, and for how long.

use std::time::Duration;

use super::layer::Terms;

/// What a run puts on a layer.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) workers: usize,
    /// Items a claim.
    pub(super) batch: usize,
    /// Queues that the workers spread over.
    pub(super) queues: usize,
    pub(super) work: Work,
    /// How long workers are at it before anything is measured.
    pub(super) warm_up: Duration,
    pub(super) mix: Mix,
    /// Items a second of all workers together; none: each claims again as soon as it can.
    pub(super) rate: Option<f64>,
    pub(super) terms: Terms,
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// When as many items have ended, all added before it began.
    Items(u64),
    /// After a time, while items are added so that about `backlog` of them wait.
    For { time: Duration, backlog: u64 },
    /// After a time, in which so many leases are held and extended.
    Hold { leases: u64, time: Duration },
}

/// What is done with a batch of leases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    /// Heartbeats before the end.
    pub(super) heartbeats: u32,
    /// The shares of the items that are failed, and released; the others are completed.
    pub(super) fail: f64,
    pub(super) release: f64,
}

impl Load {
    /// Returns how many items must have ended for the run to end; none if it ends by time.
    pub(super) fn goal(&self) -> Option<u64> {
        match self.work {
            Work::Items(items) => Some(items),
            Work::For { .. } | Work::Hold { .. } => None,
        }
    }

    /// Returns how many items are added before anybody claims.
    pub(super) fn items_before(&self) -> u64 {
        match self.work {
            Work::Items(items) => items,
            Work::For { backlog, .. } => backlog,
            Work::Hold { leases, .. } => leases,
        }
    }
}
