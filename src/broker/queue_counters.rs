//! Counters of one queue: the leases and items that went through this broker.
//!
//! They are added to once per store operation and not once per item. They synchronize nothing, so every access is
//! relaxed.

use std::sync::atomic::{AtomicU64, Ordering};

use lease_broker_model::item_state::State;
use lease_broker_model::lease_trace::ReleaseReason;
use lease_broker_model::named_enum;
use lease_broker_store::{EndedLease, Ending, Reaped, Renewed, Settled, Settlement};
use parking_lot::Mutex;

use super::held_back::HeldBack;
use super::shortest_lease::ShortestLease;

/// A number that any task can change.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Returns the present value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, number: usize) {
        self.0.fetch_add(number as u64, Ordering::Relaxed);
    }

    /// Counts the value up until the returned guard is dropped.
    pub(super) fn hold(&self) -> Held<'_> {
        self.add(1);
        Held(self)
    }
}

/// Counts its counter down when it is dropped.
pub(super) struct Held<'a>(&'a Counter);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The counters of one queue since the broker started.
#[derive(Debug, Default)]
pub struct QueueCounters {
    /// Leases that claims got.
    pub claimed: Counter,
    /// Milliseconds that their items had been ready, as far as it is known.
    pub waited_millis: Counter,
    /// Leases that heartbeats extended.
    pub extended: Counter,
    /// Leases that ended, by [`LeaseEnd`].
    pub ended: [Counter; LeaseEnd::ALL.len()],
    /// Settlements and heartbeats of leases that are not held, by [`LeaseCall`].
    pub lost: [Counter; LeaseCall::ALL.len()],
    /// Settlements that an earlier one of the same kind had made, by [`LeaseCall`].
    pub repeated: [Counter; LeaseCall::ALL.len()],
    /// Leases that no worker has received, and that the broker has released, by [`ReleaseReason`].
    pub undelivered: [Counter; ReleaseReason::ALL.len()],
    /// Completions that found no row.
    pub gone: Counter,
    /// Settlements and heartbeats that the database refused, and settlements out of the order of their run, by [`LeaseCall`].
    pub refused: [Counter; LeaseCall::ALL.len()],
    /// Lease ids that the brokers of this database never gave for this queue.
    pub unknown_ids: Counter,
    /// Items that clients added. Follow-up items count for the queue that they are added to.
    pub enqueued: Counter,
    /// Delayed items that the reaper made ready.
    pub promoted: Counter,
    /// Completed and dead items, and archived rows, that retention deleted.
    pub purged: Counter,
    /// Items that became dead because a worker failed them.
    pub dead_by_failure: Counter,
    /// Items that became dead because their lease expired.
    pub dead_by_expiry: Counter,
    /// Items that became dead because their lease was cancelled.
    pub dead_by_cancellation: Counter,
    /// Items that became dead because no claim can lease them: they are too large, or a counter of theirs is full.
    pub dead_by_claim: Counter,
    /// Steps of the store's clock that the queue's reaper has seen.
    pub clock_steps: Counter,
    /// Claims that got no lease, by [`HeldBack`].
    pub held_back: [Counter; HeldBack::ALL.len()],
    /// Groups that claims looked at.
    pub groups_visited: Counter,
    /// Walks over groups that were cut, because claims looked at many groups and found too few that can give items.
    pub walks_cut: Counter,
    /// Claim calls that wait for an item now.
    pub waiting: Counter,
    pub(super) shortest_lease: ShortestLease,
    /// Why the last run of the queue's reaper failed, or could not end each lease. `None`: it ended all that were due.
    reaper_error: Mutex<Option<String>>,
}

impl QueueCounters {
    /// Returns why the last run of the queue's reaper failed, or could not end each lease. `None`: it ended all that were due.
    pub fn reaper_error(&self) -> Option<String> {
        self.reaper_error.lock().clone()
    }

    /// Notes the outcome of the reaper's last run.
    pub(super) fn set_reaper_error(&self, error: Option<String>) {
        *self.reaper_error.lock() = error;
    }
}

named_enum! {
    /// The way in which a lease ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LeaseEnd {
        /// A worker completed its item.
        Completed = "completed",
        /// A worker failed its item.
        Failed = "failed",
        /// It was released.
        Released = "released",
        /// It expired.
        Expired = "expired",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

named_enum! {
    /// A call that names a lease.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LeaseCall {
        /// A completion.
        Complete = "complete",
        /// A failure.
        Fail = "fail",
        /// A release.
        Release = "release",
        /// A heartbeat.
        Heartbeat = "heartbeat",
    }
}

/// Returns the way in which a settlement of this kind ends its lease.
pub(super) const fn end_of(ending: &Ending) -> LeaseEnd {
    match ending {
        Ending::Complete { .. } => LeaseEnd::Completed,
        Ending::Fail { .. } => LeaseEnd::Failed,
        Ending::Release { .. } => LeaseEnd::Released,
    }
}

/// Returns the call that makes a settlement of this kind.
pub(super) const fn call_of(ending: &Ending) -> LeaseCall {
    match ending {
        Ending::Complete { .. } => LeaseCall::Complete,
        Ending::Fail { .. } => LeaseCall::Fail,
        Ending::Release { .. } => LeaseCall::Release,
    }
}

impl QueueCounters {
    pub(super) fn add_ended(&self, end: LeaseEnd, leases: usize) {
        self.ended[end as usize].add(leases);
    }

    pub(super) fn add_lost(&self, call: LeaseCall, leases: usize) {
        self.lost[call as usize].add(leases);
    }

    /// Counts the results of a store operation that extended leases.
    pub(super) fn add_renewals(&self, results: &[Renewed]) {
        let count = |is: fn(&Renewed) -> bool| results.iter().filter(|renewed| is(renewed)).count();
        self.extended
            .add(count(|renewed| renewed.expiry().is_some()));
        let call = LeaseCall::Heartbeat;
        let lost = count(|renewed| matches!(renewed, Renewed::Lost { .. }));
        self.add_lost(call, lost);
        let refused = count(|renewed| matches!(renewed, Renewed::Refused(_)));
        self.refused[call as usize].add(refused);
    }

    /// Counts the results of a store operation that settled leases.
    pub(super) fn add_settlements(&self, settlements: &[Settlement], results: &[Settled]) {
        for (settlement, result) in settlements.iter().zip(results) {
            let (end, call) = (end_of(&settlement.ending), call_of(&settlement.ending));
            match result {
                Settled::Ended(state) => {
                    self.add_ended(end, 1);
                    if end == LeaseEnd::Failed && *state == State::Dead {
                        self.dead_by_failure.add(1);
                    }
                    let trace = settlement.trace.as_ref();
                    if let Some(reason) = trace.and_then(|trace| trace.release_reason) {
                        self.undelivered[reason as usize].add(1);
                    }
                }
                Settled::Repeated(_) => self.repeated[call as usize].add(1),
                Settled::Gone => self.gone.add(1),
                Settled::Refused(_) => self.refused[call as usize].add(1),
                Settled::Lost => self.add_lost(call, 1),
            }
        }
    }

    /// Counts leases that were cancelled.
    pub(super) fn add_cancelled(&self, leases: &[EndedLease]) {
        self.add_ended(LeaseEnd::Cancelled, leases.len());
        self.dead_by_cancellation.add(count_dead(leases));
    }

    /// Counts the result of a run of the reaper.
    pub(super) fn add_reaped(&self, reaped: &Reaped) {
        self.add_ended(LeaseEnd::Expired, reaped.expired.len());
        self.dead_by_expiry.add(count_dead(&reaped.expired));
        self.promoted.add(reaped.promoted);
    }
}

fn count_dead(leases: &[EndedLease]) -> usize {
    let dead = leases.iter().filter(|lease| lease.state == State::Dead);
    dead.count()
}
