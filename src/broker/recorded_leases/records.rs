//! Counters and spans of leases. They are recorded when the result of an operation arrives.

use std::time::{Duration, SystemTime};

use lease_broker_model::lease_trace::ReleaseReason;
use lease_broker_model::millis::duration_between;
use lease_broker_model::trace_context::Span;
use lease_broker_store::{
    AppliedBatch, ClaimCall, Claimed, EndedLease, QueueIndex, Renewal, Renewed,
};
use tokio::time::Instant;

use super::RecordedLeases;
use crate::broker::lease_tracer::time_of;
use crate::broker::queue_counters::{LeaseCall, LeaseEnd};

/// Receives the durations of leases. Each method must return at once.
pub trait LeaseObserver: Send + Sync {
    /// A lease has ended after this duration.
    fn held(&self, _queue: QueueIndex, _end: LeaseEnd, _duration: Duration) {}

    /// An item was leased this long after it had become ready.
    fn waited(&self, _queue: QueueIndex, _duration: Duration) {}

    /// The reaper has ended a lease this long after it had expired.
    fn reaped(&self, _queue: QueueIndex, _delay: Duration) {}

    /// A claim on a queue with groups or limits had to wait this long for claims of other brokers.
    fn waited_for_turn(&self, _queue: QueueIndex, _duration: Duration) {}
}

/// Observes nothing.
impl LeaseObserver for () {}

impl RecordedLeases {
    /// Reports the result of a heartbeat.
    pub(super) fn trace_renewal(&self, queue: QueueIndex, renewal: &Renewal, renewed: &Renewed) {
        let Some(trace) = &renewal.trace else {
            return;
        };
        let lease = &renewal.lease;
        match renewed {
            Renewed::Extended(expiry) => {
                let time = time_of(expiry.expire_time) - expiry.time_left;
                self.tracer
                    .extended(queue, lease, trace, time, expiry.time_left);
            }
            Renewed::Lost { .. } => {
                let (call, now) = (LeaseCall::Heartbeat, SystemTime::now());
                self.tracer.lost(queue, lease, trace, call, now);
            }
            // The lease is held as before.
            Renewed::Refused(_) => {}
        }
    }

    /// Records leases that a batch of an operation on many items has ended.
    pub(in crate::broker) fn ended_by_operation(&self, queue: QueueIndex, applied: &AppliedBatch) {
        self.cancelled(queue, &applied.ended, None);
        self.released(queue, &applied.released, |_| None);
    }

    /// Records leases that were cancelled. `call`: the span of the call that asked for it, if it is recorded.
    pub(super) fn cancelled(&self, queue: QueueIndex, leases: &[EndedLease], call: Option<Span>) {
        self.metrics.queue(queue).add_cancelled(leases);
        self.observe_ended(queue, leases, LeaseEnd::Cancelled);
        self.tracer.cancelled(queue, leases, call);
    }

    /// Records leases that were released without their lease ids: by the request id of their claim, or together with an earlier lease
    /// of their run. `reason`: why the broker itself has released one, because it reached no worker.
    pub(super) fn released(
        &self,
        queue: QueueIndex,
        leases: &[EndedLease],
        reason: impl Fn(&EndedLease) -> Option<ReleaseReason>,
    ) {
        let counters = self.metrics.queue(queue);
        counters.add_ended(LeaseEnd::Released, leases.len());
        for reason in leases.iter().filter_map(&reason) {
            counters.undelivered[reason as usize].add(1);
        }
        self.observe_ended(queue, leases, LeaseEnd::Released);
        self.tracer.released(queue, leases, reason);
    }

    /// Observes how long items waited until they were leased, in milliseconds.
    fn observe_waits(&self, queue: QueueIndex, millis: impl Iterator<Item = i64>) {
        let mut sum = 0_usize;
        for millis in millis {
            sum = sum.saturating_add(usize::try_from(millis).unwrap_or(0));
            self.observer.waited(queue, duration_between(0, millis));
        }
        self.metrics.queue(queue).waited_millis.add(sum);
    }

    /// Counts the leases that a claim got.
    pub(super) fn count_claimed(
        &self,
        queue: QueueIndex,
        calls: &[ClaimCall],
        claimed: &[Claimed],
    ) {
        let new = claimed.iter().filter(|claimed| !claimed.is_repeated);
        let leases = new.map(|claimed| claimed.items.len()).sum();
        let counters = self.metrics.queue(queue);
        counters.claimed.add(leases);
        let dead = claimed.iter().map(|claimed| claimed.made_dead).sum();
        counters.dead_by_claim.add(dead);
        for turn in claimed.iter().map(|claimed| claimed.turn) {
            if turn.visited > 0 {
                counters.groups_visited.add(turn.visited);
                counters.walks_cut.add(usize::from(turn.is_cut));
            }
            if let Some(wait) = turn.wait {
                self.observer.waited_for_turn(queue, wait);
            }
        }
        let now = Instant::now();
        for (call, claimed) in calls.iter().zip(claimed) {
            if !claimed.items.is_empty() {
                counters.shortest_lease.note(call.duration, now);
            }
            let waits = claimed.items.iter().filter_map(|item| {
                let claim_time = item.expiry.claim_time(call.duration);
                Some(claim_time.saturating_sub(item.ready_time?))
            });
            self.observe_waits(queue, waits);
        }
    }

    /// Observes how long leases were held.
    pub(super) fn observe_ended(&self, queue: QueueIndex, leases: &[EndedLease], end: LeaseEnd) {
        for ended in leases {
            let held = duration_between(ended.claim_time, ended.end_time);
            self.observer.held(queue, end, held);
        }
    }
}
