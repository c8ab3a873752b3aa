//! The operations on leases as the broker runs them: a decorator of [`Leases`] that fails fast, and counts and reports operations and
//! leases.
//!
//! An operation fails at once while the store is unhealthy (see [`StoreHealth`]), and does not wait for a timeout of its own. Every
//! operation and its items are counted in [`OperationMetrics`].
//!
//! An operation that extends or ends leases, once started, runs to its end, and a lease that it ends has ended. So it runs in a task of
//! its own, which no caller can drop. It is counted and reported as spans when its result arrives, also if its caller has gone.

mod records;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use lease_broker_model::key::Key;
use lease_broker_model::lease_trace::ReleaseReason;
use lease_broker_model::millis::duration_between;
use lease_broker_store::{
    CancelResults, Cancellation, CancelledLease, ClaimCall, Claimed, Concurrency, EndedLease,
    Ending, EnqueueOnce, EnqueuedOnce, FollowUp, LatestTime, Leases, NewItem, QueueIndex, Reaped,
    ReleasedClaims, Renewal, Renewed, SettleResults, Settled, Settlement, StoreError,
};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub use self::records::LeaseObserver;
use super::lease_tracer::LeaseTracer;
use super::operation_metrics::{Operation, OperationMetrics};
use super::queue_counters::{LeaseEnd, end_of};
use super::store_health::StoreHealth;
use super::undelivered::{leases_to_release, release_all};

/// A claim that runs on the store.
type ClaimFuture = BoxFuture<'static, Result<Vec<Claimed>, StoreError>>;

/// Starts a task that waits for a claim whose callers have already got an error, and releases its leases. Otherwise no
/// worker would hold them, and their items would stay leased until the leases expire. The broker waits for the task
/// before it stops.
///
/// Leases of a call with a request id stay, because its caller gets them when it sends the call again.
fn release_late_leases(
    leases: RecordedLeases,
    queue: QueueIndex,
    calls: Arc<[ClaimCall]>,
    claim: ClaimFuture,
) {
    let tasks = leases.tasks.clone();
    tasks.spawn(async move {
        let Ok(leases_by_call) = claim.await else {
            return;
        };
        leases.count_claimed(queue, &calls, &leases_by_call);
        let late = calls.iter().zip(leases_by_call);
        let late = late.filter(|(call, _)| !call.has_request_id);
        let late = late.flat_map(|(call, claimed)| {
            let abandoned = ReleaseReason::Abandoned;
            let late = leases_to_release(claimed.items, call.duration);
            release_all(&leases.tracer, queue, abandoned, late)
        });
        let late: Arc<[Settlement]> = late.collect();
        if !late.is_empty() {
            // If the release fails, the leases expire.
            let _ = leases.settle_and_record(queue, late).await;
        }
    });
}

/// Operations that fail fast and are recorded. Clones share all parts.
#[derive(Clone)]
pub(super) struct RecordedLeases {
    pub(super) store: Arc<dyn Leases>,
    pub(super) health: Arc<StoreHealth>,
    pub(super) metrics: Arc<OperationMetrics>,
    pub(super) tracer: Arc<LeaseTracer>,
    pub(super) observer: Arc<dyn LeaseObserver>,
    /// The operations under way, and releases that wait for a late claim. The broker waits for them before it stops.
    pub(super) tasks: TaskTracker,
}

impl RecordedLeases {
    /// Runs an operation if the store is healthy, and counts it. `items` returns the number of items in its result.
    async fn observe<T>(
        &self,
        queue: QueueIndex,
        operation: Operation,
        work: impl Future<Output = Result<T, StoreError>> + Send,
        items: impl FnOnce(&T) -> usize + Send,
    ) -> Result<T, StoreError> {
        self.metrics.add_statement(queue, operation);
        let start = Instant::now();
        let outcome = self.health.fail_fast(work).await;
        let error = outcome.as_ref().err();
        self.metrics
            .observe(queue, operation, start.elapsed(), error);
        if let Ok(result) = &outcome {
            self.metrics.add_items(queue, operation, items(result));
        }
        outcome
    }

    /// Does the same as [`Self::observe`]. An operation that has started runs to its end, whether or not this future is dropped.
    async fn run<T: Send + 'static, Run>(
        &self,
        queue: QueueIndex,
        operation: Operation,
        work: impl FnOnce(Self) -> Run + Send,
        items: impl FnOnce(&T) -> usize + Send,
    ) -> Result<T, StoreError>
    where
        Run: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let task = async {
            let outcome = self.tasks.spawn(work(self.clone())).await;
            outcome.unwrap_or_else(|error| Err(StoreError::Bug(error.to_string())))
        };
        self.observe(queue, operation, task, items).await
    }

    /// Ends leases and records their ends, also while the store is unhealthy. See [`Leases::settle`].
    async fn settle_and_record(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<SettleResults, StoreError> {
        let settled = self.store.settle(queue, settlements.clone()).await?;
        let counters = self.metrics.queue(queue);
        counters.add_settlements(&settlements, &settled.results);
        for follow_up in follow_ups(&settlements, &settled.results) {
            self.metrics.queue(follow_up.queue).enqueued.add(1);
        }
        let results = settled.results.iter().zip(&settled.owners);
        for (settlement, (result, owner)) in settlements.iter().zip(results) {
            if let (Settled::Ended(_), Some(trace), Some(time)) =
                (result, &settlement.trace, settled.time)
            {
                let held = duration_between(trace.origin.claim_time, time);
                self.observer.held(queue, end_of(&settlement.ending), held);
            }
            let owner = owner.as_deref();
            self.tracer
                .settled(queue, settlement, result, owner, settled.time);
        }
        let undelivered = undelivered(&settlements, &settled.results);
        let reason = |ended: &EndedLease| undelivered.get(&ended.lease.token).copied();
        self.released(queue, &settled.released, reason);
        Ok(settled)
    }

    /// Takes the store's time from the first lease of a claim that took this long.
    fn set_store_time(&self, claimed: &[Claimed], duration: Duration) {
        if let Some(item) = claimed.iter().flat_map(|claimed| &claimed.items).next() {
            let time_left = i64::try_from(item.expiry.time_left.as_millis());
            let store_time = item
                .expiry
                .expire_time
                .saturating_sub(time_left.unwrap_or(0));
            self.metrics.set_store_time(store_time, duration);
        }
    }
}

#[async_trait]
impl Leases for RecordedLeases {
    fn concurrency(&self) -> Concurrency {
        self.store.concurrency()
    }

    fn withdraw_waiting(&self) {
        self.store.withdraw_waiting();
    }

    async fn claim(
        &self,
        queue: QueueIndex,
        calls: Arc<[ClaimCall]>,
        max_bytes: usize,
    ) -> Result<Vec<Claimed>, StoreError> {
        // Outlives `claim`, so that a claim that has started is not dropped with it. Stays `None` if the claim does not
        // start because the store is unhealthy.
        let mut unfinished: Option<ClaimFuture> = None;
        let claim = async {
            let (store, calls) = (self.store.clone(), calls.clone());
            let started = async move { store.claim(queue, calls, max_bytes).await }.boxed();
            let outcome = unfinished.insert(started).await;
            unfinished = None;
            outcome
        };
        let leases =
            |claimed: &Vec<Claimed>| claimed.iter().map(|claimed| claimed.items.len()).sum();
        let start = Instant::now();
        let outcome = self.observe(queue, Operation::Claim, claim, leases).await;
        if let Ok(claimed) = &outcome {
            self.count_claimed(queue, &calls, claimed);
            self.set_store_time(claimed, start.elapsed());
        }
        if let Some(claim) = unfinished {
            release_late_leases(self.clone(), queue, calls, claim);
        }
        outcome
    }

    async fn heartbeat(
        &self,
        queue: QueueIndex,
        renewals: Arc<[Renewal]>,
    ) -> Result<Vec<Renewed>, StoreError> {
        if let Some(shortest) = renewals.iter().map(|renewal| renewal.duration).min() {
            let in_use = &self.metrics.queue(queue).shortest_lease;
            in_use.note(shortest, Instant::now());
        }
        let work = async move |this: Self| {
            let renewed = this.store.heartbeat(queue, renewals.clone()).await?;
            this.metrics.queue(queue).add_renewals(&renewed);
            if this.tracer.is_wanted() {
                for (renewal, renewed) in renewals.iter().zip(&renewed) {
                    this.trace_renewal(queue, renewal, renewed);
                }
            }
            Ok(renewed)
        };
        self.run(queue, Operation::Heartbeat, work, Vec::len).await
    }

    async fn settle(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<SettleResults, StoreError> {
        let work = async move |this: Self| this.settle_and_record(queue, settlements).await;
        let items = |settled: &SettleResults| settled.results.len();
        self.run(queue, Operation::Settle, work, items).await
    }

    async fn release_claims(
        &self,
        queue: QueueIndex,
        tokens: Arc<[Uuid]>,
    ) -> Result<ReleasedClaims, StoreError> {
        let work = async move |this: Self| {
            let released = this.store.release_claims(queue, tokens).await?;
            this.released(queue, &released.ended, |_| None);
            Ok(released)
        };
        let items = |released: &ReleasedClaims| released.ended.len();
        self.run(queue, Operation::Settle, work, items).await
    }

    async fn cancel(
        &self,
        queue: QueueIndex,
        leases: Arc<[CancelledLease]>,
        cancellation: Cancellation,
    ) -> Result<CancelResults, StoreError> {
        let work = async move |this: Self| {
            let call = cancellation.call;
            let cancelled = this.store.cancel(queue, leases, cancellation).await?;
            this.cancelled(queue, &cancelled.ended, call);
            this.released(queue, &cancelled.released, |_| None);
            Ok(cancelled)
        };
        let items = |cancelled: &CancelResults| cancelled.results.len();
        self.run(queue, Operation::Settle, work, items).await
    }

    async fn reap(
        &self,
        queue: QueueIndex,
        limit: usize,
        latest: Option<LatestTime>,
    ) -> Result<Reaped, StoreError> {
        let work = async move |this: Self| {
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
        };
        let items =
            |reaped: &Reaped| reaped.expired.len() + reaped.released.len() + reaped.promoted;
        self.run(queue, Operation::Reap, work, items).await
    }

    async fn enqueue(
        &self,
        queue: QueueIndex,
        items: Arc<[NewItem]>,
    ) -> Result<Vec<Key>, StoreError> {
        let work = self.store.enqueue(queue, items);
        let keys = self
            .observe(queue, Operation::Enqueue, work, Vec::len)
            .await?;
        self.metrics.queue(queue).enqueued.add(keys.len());
        Ok(keys)
    }

    async fn enqueue_once(
        &self,
        queue: QueueIndex,
        request: Arc<EnqueueOnce>,
    ) -> Result<EnqueuedOnce, StoreError> {
        let count = request.items.len();
        let work = self.store.enqueue_once(queue, request);
        let added = |outcome: &EnqueuedOnce| match outcome {
            EnqueuedOnce::Added(_) => count,
            EnqueuedOnce::Repeated(_) | EnqueuedOnce::OtherItems => 0,
        };
        let outcome = self.observe(queue, Operation::Enqueue, work, added).await?;
        let enqueued = &self.metrics.queue(queue).enqueued;
        enqueued.add(added(&outcome));
        Ok(outcome)
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

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use lease_broker_value::Value;
    use parking_lot::Mutex;
    use tokio::sync::oneshot;

    use super::super::queue_counters::LeaseEnd;
    use super::*;
    use crate::config::{Config, Sources};
    use crate::span::{AttributeValue, FinishedSpan, SpanSink, Spans, attribute};
    use lease_broker_model::item_state::State;
    use lease_broker_model::lease_id::TracedQueue;
    use lease_broker_store::Store;
    use lease_broker_store::sqlite::{SqliteStore, system_clock};

    const QUEUE: QueueIndex = QueueIndex(0);

    /// Opens a store whose queue gives runs of a group, and adds this number of items of one group.
    async fn store_with_items(folder: &std::path::Path, count: usize) -> (Arc<dyn Store>, Config) {
        let file = folder.join("config.toml");
        let text = "telemetry.sample_ratio = 1.0\n[queues.work]\nmanaged_columns = { payload = 'text NOT NULL' }\n\
                    group = { column = 'payload', run = 10 }";
        std::fs::write(&file, text).expect("a file");
        let sources = Sources {
            file: Some(file),
            environment: Vec::new(),
            flags: Vec::new(),
            ..Sources::default()
        };
        let config: Config = sources.load().expect("a configuration");
        let file = folder.join("store.db");
        let store = SqliteStore::open(&file, &config.queues, system_clock()).expect("a store");
        let item = NewItem {
            columns: vec![("payload".to_owned(), Value::Text("x".to_owned()))],
            ..NewItem::default()
        };
        let items = vec![item; count];
        store.enqueue(QUEUE, items.into()).await.expect("items");
        (Arc::new(store), config)
    }

    /// Keeps the reason of each released lease.
    #[derive(Default)]
    struct Reasons(Mutex<Vec<AttributeValue>>);

    impl SpanSink for Reasons {
        fn emit(&self, span: FinishedSpan) {
            let attributes = span.attributes.into_iter();
            let reasons = attributes.filter(|(name, _)| *name == attribute::RELEASE_REASON);
            self.0.lock().extend(reasons.map(|(_, reason)| reason));
        }

        fn leave_out(&self) {}
    }

    fn recorded(store: &Arc<dyn Store>, config: &Config, spans: Spans) -> RecordedLeases {
        RecordedLeases {
            store: store.clone(),
            health: Arc::new(StoreHealth::new()),
            metrics: Arc::new(OperationMetrics::new(1, Arc::new(|_, _, _, _| ()))),
            tracer: Arc::new(LeaseTracer::new(
                spans,
                config.telemetry.trace_settings(),
                *store.secret(),
                vec![TracedQueue::new(&config.queues[0])],
            )),
            observer: Arc::new(()),
            tasks: TaskTracker::new(),
        }
    }

    /// Returns a claim of a run of this number of items.
    fn claim_of(items: usize) -> Arc<[ClaimCall]> {
        Arc::new([ClaimCall {
            worker: "worker".to_owned(),
            token: Uuid::new_v4(),
            has_request_id: false,
            max_items: items,
            max_bytes: usize::MAX,
            duration: Duration::from_secs(60),
            groups: Vec::new(),
            max_run: items,
        }])
    }

    #[tokio::test]
    async fn late_leases_are_released_before_the_broker_stops() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, config) = store_with_items(folder.path(), 1).await;
        let leases = recorded(&store, &config, Spans::default());
        let calls = claim_of(1);
        let (answer, answered) = oneshot::channel();
        let claim = {
            let (store, calls) = (store.clone(), calls.clone());
            async move {
                answered.await.expect("a sender");
                store.claim(QUEUE, calls, usize::MAX).await
            }
        };
        release_late_leases(leases.clone(), QUEUE, calls, claim.boxed());
        leases.tasks.close();
        let mut stopped = pin!(leases.tasks.wait());
        assert_eq!(stopped.as_mut().now_or_never(), None);
        answer.send(()).expect("a receiver");
        stopped.await;
        let stats = store.reads().exact_stats(QUEUE).await.expect("statistics");
        assert_eq!(stats.count_of(State::Ready), 1);
    }

    #[tokio::test]
    async fn late_leases_of_a_run_are_all_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, config) = store_with_items(folder.path(), 4).await;
        let reasons = Arc::new(Reasons::default());
        let leases = recorded(&store, &config, Spans::to(reasons.clone()));
        let calls = claim_of(4);
        let claim = {
            let (store, calls) = (store.clone(), calls.clone());
            async move { store.claim(QUEUE, calls, usize::MAX).await }
        };
        release_late_leases(leases.clone(), QUEUE, calls, claim.boxed());
        leases.tasks.close();
        leases.tasks.wait().await;
        let counters = leases.metrics.queue(QUEUE);
        let abandoned = &counters.undelivered[ReleaseReason::Abandoned as usize];
        assert_eq!(counters.ended[LeaseEnd::Released as usize].get(), 4);
        assert_eq!((counters.claimed.get(), abandoned.get()), (4, 4));
        let reason = AttributeValue::Word(ReleaseReason::Abandoned.name());
        assert_eq!(*reasons.0.lock(), vec![reason; 4]);
    }
}
