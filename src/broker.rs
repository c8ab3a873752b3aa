//! The broker: the layer between the API (`grpc`) and the store. It decides when and for whom the store leases, extends
//! and ends items.
//!
//! The broker knows no SQL and no gRPC. It keeps no state that the store does not have, so any number of brokers can
//! serve one database, and a broker can be killed at any time.
//!
//! A *store operation* is one call of a method of [`Store`]. It is atomic and can serve many calls of the API.
//!
//! This file starts and stops a broker. Its parts, in the order in which a call meets them:
//!
//! | file | content |
//! |---|---|
//! | `calls.rs`, `settle.rs` | the calls of the API |
//! | `requests.rs`, `limits.rs`, `error.rs` | requests, checks of their fields, and errors |
//! | `claim_dispatcher.rs` | one task per queue that serves claims and keeps those that wait |
//! | `admission.rs` | which calls may run and what they may hold: budgets, the shares of callers, the refusal of further calls |
//! | `group_commit.rs`, `write_operations.rs` | heartbeats, settlements and new items: many calls in one store operation |
//! | `undelivered.rs` | leases that no worker has received yet |
//! | `recorded_leases.rs`, `store_health.rs`, `store_failures.rs`, `running_operations.rs`, `operation_metrics.rs` | health and counters of the store |
//! | `recorded_leases/records.rs`, `lease_tracer.rs`, `statement_spans.rs` | counters and spans of leases and store operations |
//! | `queue_counters.rs`, `queue_monitor.rs` | counters, statistics and the age of leases, for each queue |
//! | `operator.rs` | what operators look at and change, and one task that runs their operations on many items |
//! | `activity.rs` | events per second of each queue, for the list of brokers |
//! | `instances.rs` | one task that lists this broker in the database and compares its settings with the others' |
//! | `secret_reader.rs` | one task that reads the secrets of lease ids again |
//! | `request_memory.rs` | one task that forgets the request ids of old Enqueue calls |
//! | `retention.rs` | one task per queue that deletes items that ended long ago |
//! | `reaper.rs`, `clock_watch.rs`, `shortest_lease.rs`, `steady_clock.rs`, `wakeups.rs` | one task per queue that expires leases, steps of the store's clock, and the wake-ups between tasks |

mod activity;
mod admission;
mod call_context;
mod calls;
mod claim_dispatcher;
mod clock_watch;
mod error;
mod group_commit;
mod held_back;
mod instances;
mod lease_tracer;
mod limits;
mod operation_metrics;
mod operator;
mod overlap;
mod queue_counters;
mod queue_monitor;
mod reaper;
mod recorded_leases;
mod request_memory;
mod requests;
pub mod retention;
mod running_operations;
mod secret_reader;
mod settle;
mod shortest_lease;
mod statement_spans;
mod steady_clock;
mod store_failures;
mod store_health;
mod undelivered;
mod wakeups;
mod write_operations;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{self, InvalidLeaseId, LeaseId, LeaseOwner, TracedQueue};
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::sampling::TraceSettings;
use lease_broker_store::{
    EnqueueOnce, EnqueuedOnce, Leases, NewItem, OutageCause, PoolStatus, QueueIndex, Renewal,
    Renewed, Settled, Settlement, Store, StoreError,
};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub use self::activity::{ActivityHistory, ActivitySample};
pub use self::admission::{
    Account, Budget, Budgets, FairQueue, Held, Importance, InTurn, Ledger, OpenAccount,
};
pub use self::call_context::CallContext;
pub use self::calls::SettledAndClaimed;
pub use self::error::{Error, OverloadCause};
pub use self::held_back::HeldBack;
pub use self::instances::Identity;
pub use self::operation_metrics::{Operation, OperationCount, OperationObserver};
pub use self::operator::{
    Actor, CountLimits, DryRun, GroupPage, ItemList, ItemSelection, LEFT_QUEUE, ListItems,
    ListedBrokers, MAX_PAGE, OneItem, OperationChange, OperationList, OperationView, Operator,
    QueueState, StartOperation,
};
pub use self::queue_counters::{Counter, LeaseCall, LeaseEnd, QueueCounters};
pub use self::queue_monitor::{GroupSample, QueueStatus};
pub use self::recorded_leases::LeaseObserver;
pub use self::requests::{
    CancelRequest, ClaimRequest, Enqueued, LeaseCompletion, LeaseFailure, LeaseRelease,
    LeaseRenewal, ReleaseClaimsRequest,
};
pub use self::store_failures::StoreFailure;
pub use self::store_health::StoreStatus;
pub use self::undelivered::{DeliveredLease, Delivery, UndeliveredLeases};

use self::activity::ActivityMeter;
use self::claim_dispatcher::ClaimDispatcher;
use self::group_commit::GroupCommit;
use self::instances::Instances;
use self::lease_tracer::LeaseTracer;
use self::limits::RequestLimits;
use self::operation_metrics::OperationMetrics;
use self::operator::OperationRunner;
use self::queue_monitor::{LastRefresh, QueueMonitor};
use self::reaper::Reaper;
use self::recorded_leases::RecordedLeases;
use self::retention::Retention;
use self::secret_reader::SecretReader;
use self::statement_spans::QueueSpans;
use self::steady_clock::SteadyClock;
use self::store_health::StoreHealth;
use self::undelivered::LeasedQueue;
use self::wakeups::Wakeups;
use self::write_operations::{GroupCommitTasks, WriteOperations};
use crate::config::{self, Config, Limits, Polling};
use crate::span::Spans;

/// Serves the queues of one store.
pub struct Broker {
    store: Arc<dyn Store>,
    limits: RequestLimits,
    budgets: Arc<Budgets>,
    ledger: Arc<Ledger>,
    queues: Vec<Queue>,
    store_health: Arc<StoreHealth>,
    metrics: Arc<OperationMetrics>,
    steady_clock: Arc<SteadyClock>,
    /// The operations on leases, which fail fast and are recorded.
    leases: Arc<RecordedLeases>,
    secret_reader: Arc<SecretReader>,
    operator: Arc<Operator>,
    activity_history: Arc<ActivityHistory>,
    /// Cancelled when an operator has told this broker to drain.
    told_to_drain: CancellationToken,
    /// Cancelled when the broker will stop giving leases.
    drain_announced: CancellationToken,
    /// The number of queues whose settings differ from those of another broker.
    differing_queues: Arc<AtomicUsize>,
    /// Whether a broker of another version runs.
    other_version_runs: Arc<AtomicBool>,
    /// Cancelled when another broker stands for this process.
    handed_over: CancellationToken,
    /// Cancelled when the broker stops giving leases.
    draining: CancellationToken,
    /// Cancelled when the reapers and the probes of the store must end.
    stop: CancellationToken,
    /// See [`Reaper::starts`].
    reaper_starts: Arc<Semaphore>,
    /// The reapers, the claim dispatchers, and the task that probes the store.
    tasks: TaskTracker,
    group_commit_tasks: GroupCommitTasks,
}

/// A queue with handles to the tasks that serve it.
struct Queue {
    index: QueueIndex,
    spec: QueueSpec,
    wakeups: Arc<Wakeups>,
    last_refresh: Arc<LastRefresh>,
    claims: ClaimDispatcher,
    heartbeats: GroupCommit<Renewal, Renewed>,
    settlements: GroupCommit<Settlement, Settled>,
    claim_releases: GroupCommit<Uuid, Result<usize, StoreError>>,
    enqueues: GroupCommit<NewItem, Key>,
    enqueues_once: GroupCommit<Arc<EnqueueOnce>, Result<EnqueuedOnce, StoreError>>,
}

/// The part of the configuration that concerns the broker, besides the queues.
#[derive(Clone, Copy, Debug)]
pub struct BrokerConfig {
    /// Limits of a request's fields.
    pub limits: Limits,
    /// Intervals between polls of the store while claims wait.
    pub polling: Polling,
    /// Interval and batch size of the reapers.
    pub reaper: config::Reaper,
    /// Interval between two refreshes of a queue's statistics.
    pub stats_interval: Duration,
    /// The numbers of running calls, and the bytes that leases may take in responses.
    pub budgets: config::Budgets,
    /// The maximum number of connections.
    pub max_connections: usize,
    /// Which leases are recorded as spans, and what the spans show.
    pub traces: TraceSettings,
    /// The kind of the store.
    pub store: config::StoreKind,
    /// The seed of the jitter between polls. Brokers on the same table have different ones.
    pub jitter_seed: u64,
    /// The time for which the store's clock must have run without a step before old items are deleted. Only tests change it.
    #[doc(hidden)]
    pub clock_trust: Duration,
    /// Returns the operations on leases of a store. Only tests of checkers replace it, to break a promise.
    #[doc(hidden)]
    pub lease_operations: LeaseOperations,
}

/// Returns the operations on leases of a store.
#[doc(hidden)]
pub type LeaseOperations = fn(Arc<dyn Store>) -> Arc<dyn Leases>;

/// The receivers of the broker's measurements and spans.
#[derive(Clone)]
pub struct Observers {
    /// Receives the duration of each store operation.
    pub operations: OperationObserver,
    /// Receives the durations of leases.
    pub leases: Arc<dyn LeaseObserver>,
    /// The place to which spans go.
    pub spans: Spans,
}

/// Observes nothing.
impl Default for Observers {
    fn default() -> Self {
        Self {
            operations: Arc::new(|_, _, _, _| ()),
            leases: Arc::new(()),
            spans: Spans::default(),
        }
    }
}

impl From<&Config> for BrokerConfig {
    fn from(config: &Config) -> Self {
        Self {
            limits: config.limits,
            polling: config.polling,
            reaper: config.reaper,
            stats_interval: config.telemetry.stats_interval,
            budgets: config.budgets,
            max_connections: config.server.max_connections,
            traces: config.telemetry.trace_settings(),
            store: config.store.kind,
            jitter_seed: rand::random(),
            clock_trust: steady_clock::CLOCK_TRUST,
            lease_operations: |store| store,
        }
    }
}

impl Broker {
    /// Starts a broker and its tasks.
    ///
    /// `queues` must be those that `store` was opened with, in the same order: a [`QueueIndex`] is an index of both.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(store: Arc<dyn Store>, queues: &[QueueSpec], config: BrokerConfig) -> Self {
        Self::start_observed(store, queues, config, Observers::default())
    }

    /// Does the same as [`Broker::start`], and reports measurements and spans to `observers`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start_observed(
        store: Arc<dyn Store>,
        queues: &[QueueSpec],
        config: BrokerConfig,
        observers: Observers,
    ) -> Self {
        let store_health = Arc::new(StoreHealth::new());
        let metrics = OperationMetrics::new(queues.len(), observers.operations);
        let metrics = Arc::new(metrics);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let probes = store_health.clone();
        let lease_operations = (config.lease_operations)(store.clone());
        let probe =
            probes.probe_until_stopped(store.clone(), lease_operations.clone(), stop.clone());
        tasks.spawn(probe);
        let database = Arc::new(store.database());
        let traced = queues.iter().map(TracedQueue::new).collect();
        let spans = observers.spans;
        let leases = Arc::new(RecordedLeases {
            store: lease_operations,
            health: store_health.clone(),
            metrics: metrics.clone(),
            tracer: Arc::new(LeaseTracer::new(
                spans.clone(),
                config.traces,
                *store.secret(),
                traced,
            )),
            observer: observers.leases,
            tasks: TaskTracker::new(),
        });
        let secret_reader = Arc::new(SecretReader::new(store.clone()));
        let wakeups: Arc<[Arc<Wakeups>]> = queues.iter().map(|_| Arc::default()).collect();
        let mut operator = Operator::with_wakeups(
            store.clone(),
            queues,
            config.limits.max_items,
            wakeups.clone(),
        );
        operator.recorded = Some(leases.clone());
        let mut broker = Self {
            operator: Arc::new(operator),
            activity_history: Arc::default(),
            told_to_drain: CancellationToken::new(),
            store,
            limits: RequestLimits(config.limits),
            budgets: Arc::new(Budgets::new(config.budgets)),
            ledger: Ledger::new(config.max_connections),
            queues: Vec::with_capacity(queues.len()),
            store_health,
            metrics,
            steady_clock: Arc::new(SteadyClock::new(config.clock_trust)),
            leases,
            drain_announced: CancellationToken::new(),
            differing_queues: Arc::default(),
            other_version_runs: Arc::default(),
            secret_reader,
            handed_over: CancellationToken::new(),
            draining: CancellationToken::new(),
            stop,
            reaper_starts: Arc::new(Semaphore::new(reaper::CONCURRENT_STARTS)),
            tasks,
            group_commit_tasks: GroupCommitTasks::default(),
        };
        broker
            .tasks
            .spawn(broker.secret_reader.clone().run(broker.stop.clone()));
        let forget = request_memory::run(
            broker.store.clone(),
            broker.store_health.clone(),
            broker.stop.clone(),
        );
        broker.tasks.spawn(forget);
        let refresh_turns = Arc::new(Semaphore::new(queue_monitor::CONCURRENT_REFRESHES));
        for (index, spec) in queues.iter().enumerate() {
            let index = QueueIndex(index);
            let spans = QueueSpans {
                spans: spans.clone(),
                system: config.store.system_name(),
                queue: spec.name.as_str().into(),
                table: spec.table.as_str().into(),
                database: database.clone(),
            };
            let queue = broker.start_queue(index, spec, &wakeups, &config, &spans);
            let monitor = QueueMonitor {
                store: broker.store.reads().clone(),
                health: broker.store_health.clone(),
                turns: refresh_turns.clone(),
                queue: index,
                queue_name: spec.name.clone(),
                interval: config.stats_interval,
                max_lease_age: spec.max_lease_age,
                has_groups: spec.groups.is_some(),
                last_refresh: queue.last_refresh.clone(),
                metrics: broker.metrics.clone(),
                reported: HashMap::new(),
            };
            broker.tasks.spawn(monitor.run(broker.stop.clone()));
            broker.queues.push(queue);
        }
        broker
    }

    /// Starts the tasks of one queue: its reaper, its claim dispatcher and its group commits.
    fn start_queue(
        &self,
        index: QueueIndex,
        spec: &QueueSpec,
        wakeups_by_queue: &Arc<[Arc<Wakeups>]>,
        config: &BrokerConfig,
        spans: &QueueSpans,
    ) -> Queue {
        let store: Arc<dyn Leases> = self.leases.clone();
        let wakeups = wakeups_by_queue[index.0].clone();
        let reaper = Reaper {
            store: store.clone(),
            queue: index,
            queue_name: spec.name.clone(),
            config: config.reaper,
            lease_duration: spec.lease.default,
            wakeups: wakeups.clone(),
            metrics: self.metrics.clone(),
            steady_clock: self.steady_clock.clone(),
            starts: self.reaper_starts.clone(),
        };
        self.tasks.spawn(reaper.run(self.stop.clone()));
        if spec.keep_for.shortest().is_some() {
            let retention = Retention {
                store: self.store.clone(),
                health: self.store_health.clone(),
                metrics: self.metrics.clone(),
                queue: index,
                queue_name: spec.name.clone(),
                keep_for: spec.keep_for,
                clock: self.steady_clock.clone(),
                broker: Uuid::new_v4(),
            };
            self.tasks.spawn(retention.run(self.stop.clone()));
        }
        let writes = WriteOperations {
            tasks: &self.group_commit_tasks,
            store: store.clone(),
            queue: index,
            wakeups: wakeups_by_queue.clone(),
            spans,
        };
        let settlements = writes.settle(spec);
        let leased_queue = LeasedQueue {
            name: spec.name.clone(),
            columns: self.store.columns(index),
            max_attempts: spec.retry.max_attempts,
            takes_turns: spec.takes_turns(),
            shows_worker: spec.shows_worker(),
            secrets: self.store.signing_secrets().clone(),
            index,
            tracer: self.leases.tracer.clone(),
            settlements: settlements.clone(),
            budgets: self.budgets.clone(),
        };
        let claims = ClaimDispatcher::spawn(
            &self.tasks,
            store.clone(),
            (config.polling, config.jitter_seed),
            wakeups.clone(),
            Arc::new(leased_queue),
            spans.of(Operation::Claim),
            self.draining.clone(),
        );
        Queue {
            index,
            last_refresh: Arc::default(),
            claims,
            heartbeats: writes.heartbeat(),
            settlements,
            claim_releases: writes.release_claims(),
            enqueues_once: writes.enqueue_once(),
            enqueues: writes.enqueue(self.budgets.clone()),
            wakeups,
            spec: spec.clone(),
        }
    }

    /// Returns the ledger of the connections.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Returns the budgets of places and bytes.
    pub fn budgets(&self) -> &Arc<Budgets> {
        &self.budgets
    }

    /// Returns a receiver of the store's health: true while the store is healthy.
    pub fn store_health(&self) -> watch::Receiver<bool> {
        self.store_health.subscribe()
    }

    /// Checks that the store can read and write, and that its database has not gone back in time.
    pub async fn check_store(&self) -> Result<(), StoreError> {
        self.store_health.fail_fast(self.store.probe()).await
    }

    /// Returns the state of the store, with its last failure.
    pub fn store_status(&self) -> StoreStatus {
        self.store_health.status()
    }

    /// Returns the number of failures of the store of one kind since the start.
    pub fn store_failures(&self, cause: OutageCause) -> u64 {
        self.store_health.failures(cause)
    }

    /// Returns the present state of the store's connections.
    pub fn pool_status(&self) -> PoolStatus {
        self.store.pool_status()
    }

    /// Returns the counters of one kind of operation on all queues since the broker started.
    pub fn operation_count(&self, operation: Operation) -> OperationCount {
        let queues = (0..self.queues.len()).map(QueueIndex);
        queues
            .map(|queue| self.metrics.count(queue, operation))
            .sum()
    }

    /// Returns the counters of one kind of operation on one queue since the broker started.
    ///
    /// # Panics
    /// If the broker has no queue with this index.
    pub fn queue_operation_count(&self, queue: QueueIndex, operation: Operation) -> OperationCount {
        self.metrics.count(queue, operation)
    }

    /// Returns the counters of a queue.
    ///
    /// # Panics
    /// If the broker has no queue with this index.
    pub fn queue_counters(&self, queue: QueueIndex) -> &QueueCounters {
        self.metrics.queue(queue)
    }

    /// Returns the last statistics of a queue. `None`: they have not been read yet.
    ///
    /// # Panics
    /// If the broker has no queue with this index.
    pub fn queue_status(&self, queue: QueueIndex) -> Option<QueueStatus> {
        self.queues[queue.0].last_refresh.status()
    }

    /// Returns the age of the oldest part of a queue's statistics. A part that was never read is as old as the broker.
    ///
    /// # Panics
    /// If the broker has no queue with this index.
    pub fn queue_statistics_age(&self, queue: QueueIndex) -> Duration {
        self.queues[queue.0].last_refresh.age()
    }

    /// Returns the store's clock minus the clock of this process, in seconds, at the last claim that got a lease. The error
    /// is at most half the duration of that claim's operation. `None`: no claim has got a lease.
    pub fn clock_offset_seconds(&self) -> Option<f64> {
        self.metrics.clock_offset_seconds()
    }

    /// Returns the event rates of all brokers together in the last 15 minutes.
    pub fn activity_history(&self) -> &Arc<ActivityHistory> {
        &self.activity_history
    }

    /// Returns what serves operators.
    pub fn operator(&self) -> &Arc<Operator> {
        &self.operator
    }

    /// Takes a place for a call of an operator, as every call that works has one.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if there is none, [`Error::Withdrawn`] if the caller's deadline has passed.
    pub fn operator_call(&self, context: &CallContext) -> Result<impl Sized + use<>, Error> {
        let place = self.budgets.working_call(context)?;
        context.begin()?;
        Ok(place)
    }

    /// Waits until an operator tells this broker to drain.
    pub async fn told_to_drain(&self) {
        self.told_to_drain.cancelled().await;
    }

    /// Lists this broker in the database every 5 s, until it stops, and compares its settings with those of the others. Also runs
    /// operations on many items.
    pub fn announce(&self, identity: Identity) {
        let _ = self.operator.broker_id.set(identity.id);
        let (operator, store) = (self.operator.clone(), self.store.clone());
        let drain = self.told_to_drain.clone();
        let runner = OperationRunner::new(operator, store, identity.id, drain);
        self.spawn_until_handed_over(runner.run(self.stop.clone()));
        let operator = self.operator.clone();
        self.spawn_until_handed_over(operator.log_left_queues(self.stop.clone()));
        let names = self.operator.queue_names().map(str::to_owned).collect();
        let meter = ActivityMeter::new(self.metrics.clone(), names);
        let instances = Instances::new(
            self.store.clone(),
            self.store_health.clone(),
            identity,
            self.queues.iter().map(|queue| &queue.spec),
            self.drain_announced.clone(),
            (
                self.differing_queues.clone(),
                self.other_version_runs.clone(),
            ),
            (meter, self.activity_history.clone()),
        );
        self.spawn_until_handed_over(instances.run(self.stop.clone()));
    }

    fn spawn_until_handed_over(&self, work: impl Future<Output = ()> + Send + 'static) {
        let handed_over = self.handed_over.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                // First, so that the drain that follows is not announced as that of the process.
                biased;
                () = handed_over.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Ends the work of [`Broker::announce`], because another broker of this process does it under the same identity.
    pub fn hand_over(&self) {
        self.handed_over.cancel();
    }

    /// Returns the number of queues whose settings differ from those of another broker that runs now. It is 0 unless
    /// [`Broker::announce`] was called.
    pub fn differing_queues(&self) -> usize {
        self.differing_queues.load(Ordering::Relaxed)
    }

    /// Returns true after [`Broker::announce_drain`] or [`Broker::drain`].
    pub fn is_draining(&self) -> bool {
        self.drain_announced.is_cancelled() || self.draining.is_cancelled()
    }

    /// Waits until [`Broker::announce_drain`] is called.
    pub async fn drain_announced(&self) {
        self.drain_announced.cancelled().await;
    }

    /// Says that [`Broker::drain`] follows. Until then every call is served as before.
    pub fn announce_drain(&self) {
        self.drain_announced.cancel();
    }

    /// Stops giving leases. Waiting claims are answered without leases, and new claims fail with [`Error::Draining`].
    /// Heartbeats, settlements and new items are served as before.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Drains the broker, stops its tasks, and waits until every operation has ended, including releases of leases that
    /// no worker received.
    pub async fn stop(&self) {
        self.drain();
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        // Last, because the claim dispatchers release leases through group commit until they end.
        self.group_commit_tasks.stop().await;
        // These can outlive the calls that wanted them.
        self.leases.tasks.close();
        self.leases.tasks.wait().await;
    }

    fn queue(&self, name: &str) -> Result<&Queue, Error> {
        let (index, _) = self.operator.queue(name)?;
        Ok(&self.queues[index.0])
    }

    /// Decodes the lease ids of a call. An id is `None` if this deployment never gave it out for the queue to this owner.
    ///
    /// # Errors
    /// [`Error::LeaseIdTooNew`] if a newer broker gave an id, while brokers of another version run. [`Error::SecretNotRead`] if
    /// another broker may have signed one with a new secret.
    fn decode_lease_ids<'a>(
        &self,
        queue: &Queue,
        owner: &LeaseOwner,
        ids: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Option<LeaseId>>, Error> {
        // Each id is decoded, so that all new secrets are read before the call is sent again.
        let decoded: Vec<_> = ids
            .map(|id| self.decode_lease_id(queue, owner, id))
            .collect();
        decoded.into_iter().collect()
    }

    fn decode_lease_id(
        &self,
        queue: &Queue,
        owner: &LeaseOwner,
        id: &str,
    ) -> Result<Option<LeaseId>, Error> {
        match lease_id::decode(self.store.signing_secrets(), &queue.spec.name, owner, id) {
            Ok(id) => Ok(Some(id)),
            Err(InvalidLeaseId::UnknownSecret(number)) if self.secret_reader.reads_soon(number) => {
                Err(Error::SecretNotRead { number })
            }
            Err(InvalidLeaseId::NewerVersion(version))
                if self.other_version_runs.load(Ordering::Relaxed) =>
            {
                Err(Error::LeaseIdTooNew { version })
            }
            Err(_) => {
                self.metrics.queue(queue.index).unknown_ids.add(1);
                Ok(None)
            }
        }
    }
}
