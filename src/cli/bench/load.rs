//! The load: how many workers do what, and for how long.

use std::time::Duration;

use super::layer::Terms;

/// What a run puts on a layer.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) workers: usize,
    /// Connections that they share; no more than workers.
    pub(super) connections: usize,
    /// Items a claim.
    pub(super) batch: usize,
    /// Queues that the workers spread over.
    pub(super) queues: usize,
    pub(super) work: Work,
    /// How long workers are at it before anything is measured.
    pub(super) warm_up: Duration,
    pub(super) mix: Mix,
    /// Whether a completion claims the next items in the same call.
    pub(super) next: bool,
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
    /// Returns how many items must have ended, or leases been claimed that are held, for the next thing to happen; none
    /// if only time ends it.
    pub(super) fn goal(&self) -> Option<u64> {
        match self.work {
            Work::Items(goal) | Work::Hold { leases: goal, .. } => Some(goal),
            Work::For { .. } => None,
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

    /// Returns how long it is measured; none if until all is done.
    pub(super) fn time(&self) -> Option<Duration> {
        match self.work {
            Work::Items(_) => None,
            Work::For { time, .. } | Work::Hold { time, .. } => Some(time),
        }
    }

    /// Returns how many claims an open loop has to send in `time`; none for a closed one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a positive count; a part of a claim is none"
    )]
    pub(super) fn claims_due_in(&self, time: Duration) -> Option<u64> {
        let rate = self.rate?;
        Some((time.as_secs_f64() * rate / self.batch as f64) as u64)
    }
}
