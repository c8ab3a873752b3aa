//! The store operations that extend and end leases. Each is counted and reported as spans when its result arrives, even if nobody
//! waits for it any more.
//!
//! An operation that has started runs to its end, and a lease that it ends has ended. So each runs in a task of its own, which
//! no caller can drop.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lease_broker_model::lease_trace::ReleaseReason;
use lease_broker_model::millis::duration_between;
use lease_broker_model::trace_context::Span;
use lease_broker_store::{
    AppliedBatch, CancelResults, Cancellation, CancelledLease, ClaimCall, Claimed, EndedLease,
    Ending, FollowUp, LatestTime, Leases, QueueIndex, Reaped, ReleasedClaims, Renewal, Renewed,
    SettleResults, Settled, Settlement, StoreError,
};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::lease_tracer::{LeaseTracer, time_of};
use super::operation_metrics::OperationMetrics;
use super::queue_counters::{LeaseCall, LeaseEnd, end_of};

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

/// Runs the operations on leases.
pub(super) struct LeaseRecorder {
    pub(super) store: Arc<dyn Leases>,
    pub(super) metrics: Arc<OperationMetrics>,
    pub(super) tracer: Arc<LeaseTracer>,
    pub(super) observer: Arc<dyn LeaseObserver>,
    /// The operations under way, and releases that wait for a late claim. The broker waits for them before it stops.
    pub(super) tasks: TaskTracker,
}

impl LeaseRecorder {
    /// Runs an operation to its end, whether or not the returned future is dropped.
    async fn run<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let outcome = self.tasks.spawn(operation).await;
        outcome.unwrap_or_else(|error| Err(StoreError::Bug(error.to_string())))
    }

    /// Extends leases. See [`Leases::heartbeat`].
    pub(super) async fn heartbeat(
        self: &Arc<Self>,
        queue: QueueIndex,
        renewals: Arc<[Renewal]>,
    ) -> Result<Vec<Renewed>, StoreError> {
        let this = self.clone();
        self.run(async move {
            let renewed = this.store.heartbeat(queue, renewals.clone()).await?;
            this.metrics.queue(queue).add_renewals(&renewed);
            if this.tracer.is_wanted() {
                for (renewal, renewed) in renewals.iter().zip(&renewed) {
                    this.trace_renewal(queue, renewal, renewed);
                }
            }
            Ok(renewed)
        })
        .await
    }

    fn trace_renewal(&self, queue: QueueIndex, renewal: &Renewal, renewed: &Renewed) {
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

    /// Ends leases. See [`Leases::settle`].
    pub(super) async fn settle(
        self: &Arc<Self>,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<SettleResults, StoreError> {
        let this = self.clone();
        self.run(async move {
            let settled = this.store.settle(queue, settlements.clone()).await?;
            let counters = this.metrics.queue(queue);
            counters.add_settlements(&settlements, &settled.results);
            for follow_up in follow_ups(&settlements, &settled.results) {
                this.metrics.queue(follow_up.queue).enqueued.add(1);
            }
            let results = settled.results.iter().zip(&settled.owners);
            for (settlement, (result, owner)) in settlements.iter().zip(results) {
                if let (Settled::Ended(_), Some(trace), Some(time)) =
                    (result, &settlement.trace, settled.time)
                {
                    let held = duration_between(trace.origin.claim_time, time);
                    this.observer.held(queue, end_of(&settlement.ending), held);
                }
                let owner = owner.as_deref();
                this.tracer
                    .settled(queue, settlement, result, owner, settled.time);
            }
            let undelivered = undelivered(&settlements, &settled.results);
            let reason = |ended: &EndedLease| undelivered.get(&ended.lease.token).copied();
            this.released(queue, &settled.released, reason);
            Ok(settled)
        })
        .await
    }

    /// Releases the leases of whole claims. See [`Leases::release_claims`].
    pub(super) async fn release_claims(
        self: &Arc<Self>,
        queue: QueueIndex,
        tokens: Arc<[Uuid]>,
    ) -> Result<ReleasedClaims, StoreError> {
        let this = self.clone();
        self.run(async move {
            let released = this.store.release_claims(queue, tokens).await?;
            this.released(queue, &released.ended, |_| None);
            Ok(released)
        })
        .await
    }

    /// Cancels leases. See [`Leases::cancel`].
    pub(super) async fn cancel(
        self: &Arc<Self>,
        queue: QueueIndex,
        leases: Arc<[CancelledLease]>,
        cancellation: Cancellation,
    ) -> Result<CancelResults, StoreError> {
        let this = self.clone();
        let call = cancellation.call;
        self.run(async move {
            let cancelled = this.store.cancel(queue, leases, cancellation).await?;
            this.cancelled(queue, &cancelled.ended, call);
            this.released(queue, &cancelled.released, |_| None);
            Ok(cancelled)
        })
        .await
    }

    /// Records leases that a batch of an operation on many items has ended.
    pub(super) fn ended_by_operation(&self, queue: QueueIndex, applied: &AppliedBatch) {
        self.cancelled(queue, &applied.ended, None);
        self.released(queue, &applied.released, |_| None);
    }

    /// Records leases that were cancelled. `call`: the span of the call that asked for it, if it is recorded.
    fn cancelled(&self, queue: QueueIndex, leases: &[EndedLease], call: Option<Span>) {
        self.metrics.queue(queue).add_cancelled(leases);
        self.observe_ended(queue, leases, LeaseEnd::Cancelled);
        self.tracer.cancelled(queue, leases, call);
    }

    /// Ends expired leases. See [`Leases::reap`].
    pub(super) async fn reap(
        self: &Arc<Self>,
        queue: QueueIndex,
        limit: usize,
        latest: Option<LatestTime>,
    ) -> Result<Reaped, StoreError> {
        let this = self.clone();
        self.run(async move {
            let start = SystemTime::now();
            let reaped = this.store.reap(queue, limit, latest).await?;
            this.metrics.queue(queue).add_reaped(&reaped);
            this.observe_ended(queue, &reaped.expired, LeaseEnd::Expired);
            for expired in &reaped.expired {
                let delay = duration_between(expired.expire_time, expired.end_time);
                this.observer.reaped(queue, delay);
            }
            this.tracer.reaped(queue, &reaped, start);
            this.released(queue, &reaped.released, |_| None);
            Ok(reaped)
        })
        .await
    }

    /// Records leases that were released without their lease ids: by the request id of their claim, or together with an earlier lease
    /// of their run. `reason`: why the broker itself has released one, because it reached no worker.
    fn released(
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

    fn observe_ended(&self, queue: QueueIndex, leases: &[EndedLease], end: LeaseEnd) {
        for ended in leases {
            let held = duration_between(ended.claim_time, ended.end_time);
            self.observer.held(queue, end, held);
        }
    }
}

/// Returns the tokens of the claims whose leases these settlements have released because they reached no worker, with the reason. The
/// store releases the later leases of a run with the first one, and the claim tells for which reason.
fn undelivered(settlements: &[Settlement], results: &[Settled]) -> HashMap<Uuid, ReleaseReason> {
    let applied = settlements.iter().zip(results);
    let applied = applied.filter(|(_, result)| matches!(result, Settled::Ended(_)));
    let claims = applied.filter_map(|(settlement, _)| {
        let reason = settlement.trace.as_ref()?.release_reason?;
        Some((settlement.lease.token, reason))
    });
    claims.collect()
}

/// Returns the follow-up items of the completions that were applied.
fn follow_ups<'a>(
    settlements: &'a [Settlement],
    results: &'a [Settled],
) -> impl Iterator<Item = &'a FollowUp> {
    let applied = settlements.iter().zip(results);
    let applied = applied.filter(|(_, result)| matches!(result, Settled::Ended(_)));
    applied.flat_map(|(settlement, _)| match &settlement.ending {
        Ending::Complete { follow_ups } => follow_ups.as_slice(),
        Ending::Fail { .. } | Ending::Release { .. } => &[],
    })
}
