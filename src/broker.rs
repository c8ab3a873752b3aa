//! The broker: limits, attempts and backoff, group commit, waiting claims, the reaper, and draining. It knows no SQL and
//! no gRPC, and keeps nothing that the store does not have.

mod claim_dispatcher;
mod error;
mod fail_fast_store;
mod group_commit;
mod limits;
mod operation_metrics;
mod reaper;
mod requests;
mod store_health;
mod undelivered;
mod wakeups;
mod write_operations;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::error::Error;
pub use self::operation_metrics::{Operation, OperationCount};
pub use self::requests::{ClaimRequest, LeaseCompletion, LeaseFailure};
pub use self::undelivered::UndeliveredLeases;

use self::claim_dispatcher::ClaimDispatcher;
use self::fail_fast_store::FailFastStore;
use self::group_commit::GroupCommit;
use self::operation_metrics::OperationMetrics;
use self::reaper::Reaper;
use self::store_health::StoreHealth;
use self::wakeups::Wakeups;
use self::write_operations::GroupCommitTasks;
use crate::config::{self, Config, Limits, Polling};
use crate::lease::{AfterFailure, State};
use crate::lease_id::LeaseRef;
use crate::queue::QueueSpec;
use crate::store::{
    Ending, Extension, FollowUp, Held, NewItem, QueueIndex, Rejection, Settlement, Store,
    StoreError,
};
use crate::value::Key;

/// Serves the queues of one store.
pub struct Broker {
    store: Arc<dyn Store>,
    limits: Limits,
    queues: Vec<Queue>,
    by_name: HashMap<String, QueueIndex>,
    pulse: Arc<StoreHealth>,
    counts: Arc<OperationMetrics>,
    draining: CancellationToken,
    stop: CancellationToken,
    /// The reapers, the claims, and the watch over the store.
    tasks: TaskTracker,
    lanes: GroupCommitTasks,
}

/// A queue at work.
struct Queue {
    spec: QueueSpec,
    index: QueueIndex,
    columns: Arc<[String]>,
    signals: Arc<Wakeups>,
    claims: ClaimDispatcher,
    heartbeats: GroupCommit<Extension, Option<Held>>,
    settlements: GroupCommit<Settlement, Option<State>>,
    enqueues: GroupCommit<NewItem, Key>,
}

/// What a broker needs to know besides its store and its queues.
#[derive(Clone, Copy, Debug)]
pub struct BrokerConfig {
    /// What a call may ask for.
    pub limits: Limits,
    /// How the store is polled while claims wait.
    pub polling: Polling,
    /// How leases expire.
    pub reaper: config::Reaper,
}

impl From<&Config> for BrokerConfig {
    fn from(config: &Config) -> Self {
        Self {
            limits: config.limits,
            polling: config.polling,
            reaper: config.reaper,
        }
    }
}

impl Broker {
    /// Starts a broker for `queues`, in the order in which the store was opened with them. Needs a tokio runtime.
    pub fn start(store: Arc<dyn Store>, queues: &[QueueSpec], settings: BrokerConfig) -> Self {
        let tasks = TaskTracker::new();
        let lanes = GroupCommitTasks::default();
        let (draining, stop) = (CancellationToken::new(), CancellationToken::new());
        let (pulse, counts) = (
            Arc::new(StoreHealth::new()),
            Arc::new(OperationMetrics::default()),
        );
        tasks.spawn(pulse.clone().watch(store.clone(), stop.clone()));
        let store: Arc<dyn Store> = Arc::new(FailFastStore {
            store,
            pulse: pulse.clone(),
            counts: counts.clone(),
        });
        let signals: Arc<[Arc<Wakeups>]> = queues.iter().map(|_| Arc::default()).collect();
        let start = |(at, spec): (usize, &QueueSpec)| {
            let index = QueueIndex(at);
            let own = signals[at].clone();
            let settlements =
                write_operations::settle(&lanes, store.clone(), index, spec, signals.clone());
            let reaper = Reaper {
                store: store.clone(),
                queue: index,
                name: spec.name.clone(),
                settings: settings.reaper,
                signals: own.clone(),
            };
            tasks.spawn(reaper.run(stop.clone()));
            Queue {
                claims: ClaimDispatcher::spawn(
                    &tasks,
                    store.clone(),
                    index,
                    settings.polling,
                    own.clone(),
                    settlements.clone(),
                    draining.clone(),
                ),
                heartbeats: write_operations::heartbeat(&lanes, store.clone(), index),
                settlements,
                enqueues: write_operations::enqueue(&lanes, store.clone(), index, own.clone()),
                columns: store.columns(index),
                signals: own,
                spec: spec.clone(),
                index,
            }
        };
        let queues: Vec<Queue> = queues.iter().enumerate().map(start).collect();
        Self {
            by_name: queues
                .iter()
                .map(|queue| (queue.spec.name.clone(), queue.index))
                .collect(),
            store,
            limits: settings.limits,
            queues,
            pulse,
            counts,
            draining,
            stop,
            tasks,
            lanes,
        }
    }

    /// Leases items.
    ///
    /// # Errors
    /// [`Error::Draining`] once [`Broker::drain`] was called, and those of a bad field, a limit or the store.
    pub async fn claim(&self, claim: ClaimRequest) -> Result<UndeliveredLeases, Error> {
        self.counts.call(Operation::Claim);
        let queue = self.queue(&claim.queue)?;
        let (wait, patience) = (
            claim.wait_timeout,
            claim.time_to_deadline.unwrap_or(Duration::MAX),
        );
        let call = claim.call(&queue.spec, &self.limits, self.store.secret())?;
        if self.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        let wait = wait.map(|wait| wait.min(patience));
        let granted = queue.claims.claim(call, wait).await;
        granted.map_err(Error::from)
    }

    /// Extends leases; none for each that is not held any more.
    pub async fn heartbeat(
        &self,
        queue: &str,
        lease_ids: &[String],
        lease: Option<Duration>,
    ) -> Result<Vec<Option<Held>>, Error> {
        self.counts.call(Operation::Heartbeat);
        let queue = self.queue(queue)?;
        self.limits.at_most("lease_ids", lease_ids.len())?;
        let duration = limits::lease(&queue.spec, "lease_duration", lease)?;
        let extensions = lease_ids.iter().map(|id| {
            self.lease(queue, id)
                .map(|lease| Extension { lease, duration })
        });
        let held = known(extensions, |extensions| queue.heartbeats.run(extensions)).await;
        let held = held?;
        if held.iter().any(Option::is_some) {
            queue.signals.due.no_later_than(duration);
        }
        Ok(held)
    }

    /// Ends leases whose work is done; returns where each item is, or none if its lease is not held.
    pub async fn complete(
        &self,
        queue: &str,
        completions: Vec<LeaseCompletion>,
    ) -> Result<Vec<Option<State>>, Error> {
        let queue = self.queue(queue)?;
        self.limits.at_most("completions", completions.len())?;
        let follow_ups = completions
            .iter()
            .map(|completion| completion.follow_ups.len());
        self.limits
            .at_most("completions.follow_ups", follow_ups.sum())?;
        let mut settlements = Vec::with_capacity(completions.len());
        for (at, completion) in completions.into_iter().enumerate() {
            let follow_ups = self.follow_ups(at, completion.follow_ups)?;
            let ending = Ending::Complete { follow_ups };
            settlements.push((self.lease(queue, &completion.lease_id), ending));
        }
        self.settle(queue, settlements, "completions").await
    }

    /// Ends leases whose work is done, as [`Self::complete`], and leases items of the same queue at the same time, without
    /// waiting for any. The leases of a call that fails are given back at once; a claim that fails alone gets none.
    pub async fn complete_and_claim(
        &self,
        completions: Vec<LeaseCompletion>,
        next: ClaimRequest,
    ) -> Result<(Vec<Option<State>>, UndeliveredLeases), Error> {
        self.counts.call(Operation::Claim);
        let queue = self.queue(&next.queue)?;
        let call = next.call(&queue.spec, &self.limits, self.store.secret());
        let call = call.map_err(|error| error.in_message("next"))?;
        let complete = self.complete(&queue.spec.name, completions);
        let (states, grant) = tokio::join!(complete, queue.claims.claim(call, None));
        let nothing = || UndeliveredLeases::new(Vec::new(), queue.settlements.clone());
        let grant = grant.unwrap_or_else(|_| nothing());
        Ok((states?, grant))
    }

    /// Ends leases whose work failed; returns where each item is, or none if its lease is not held.
    pub async fn fail(
        &self,
        queue: &str,
        failures: Vec<LeaseFailure>,
    ) -> Result<Vec<Option<State>>, Error> {
        let queue = self.queue(queue)?;
        self.limits.at_most("failures", failures.len())?;
        let mut settlements = Vec::with_capacity(failures.len());
        for (at, failure) in failures.into_iter().enumerate() {
            if let Some(delay) = failure.retry_delay {
                limits::delay(format!("failures[{at}].retry_delay"), delay)?;
            }
            let lease = self.lease(queue, &failure.lease_id);
            let attempt = lease.as_ref().map_or(1, |lease| lease.attempt);
            let random = rand::rng().random();
            let retry = queue
                .spec
                .retry
                .after_failure(attempt, failure.retry_delay, random);
            let ending = Ending::Fail {
                error: failure.error.chars().take(limits::ERROR_LENGTH).collect(),
                retry: match retry {
                    AfterFailure::Retry(delay) if !failure.dead_letter => Some(delay),
                    _ => None,
                },
            };
            settlements.push((lease, ending));
        }
        self.settle(queue, settlements, "failures").await
    }

    /// Ends leases whose work was not done; returns where each item is, or none if its lease is not held.
    pub async fn release(
        &self,
        queue: &str,
        lease_ids: &[String],
        delay: Option<Duration>,
    ) -> Result<Vec<Option<State>>, Error> {
        let queue = self.queue(queue)?;
        self.limits.at_most("lease_ids", lease_ids.len())?;
        let delay = delay.unwrap_or_default();
        limits::delay("delay", delay)?;
        let ids = lease_ids.iter();
        let settlements = ids
            .map(|id| (self.lease(queue, id), Ending::Release { delay }))
            .collect();
        self.settle(queue, settlements, "lease_ids").await
    }

    /// Adds items and returns their keys.
    pub async fn enqueue(&self, queue: &str, items: Vec<NewItem>) -> Result<Vec<Key>, Error> {
        self.counts.call(Operation::Enqueue);
        let queue = self.queue(queue)?;
        self.limits.at_most("items", items.len())?;
        for (at, item) in items.iter().enumerate() {
            limits::delay(format!("items[{at}].delay"), item.delay)?;
        }
        queue
            .enqueues
            .run(items)
            .await
            .map_err(|error| match error {
                StoreError::Rejected(rejection) => {
                    let item = format!("items[{}]", rejection.item);
                    Error::invalid(column_path(&item, &rejection), rejection.problem)
                }
                other => other.into(),
            })
    }

    /// Returns the names of the columns that a queue's workers get.
    pub fn columns(&self, queue: &str) -> Result<Arc<[String]>, Error> {
        Ok(self.queue(queue)?.columns.clone())
    }

    /// Writes the id of a lease of this queue.
    pub fn lease_id(&self, queue: &str, lease: &LeaseRef) -> String {
        lease.encode(self.store.secret(), queue)
    }

    /// Follows whether the store answers.
    pub fn store_health(&self) -> watch::Receiver<bool> {
        self.pulse.answers()
    }

    /// Returns how often an operation was asked for since the start, and what that took.
    pub fn operation_count(&self, operation: Operation) -> OperationCount {
        self.counts.of(operation)
    }

    /// Stops giving leases: claims that wait are answered, further ones refused. Everything else goes on.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Drains, stops the reapers, and waits for what is under way, releases of claims given up among it.
    pub async fn stop(&self) {
        self.drain();
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.lanes.end().await;
    }

    fn queue(&self, name: &str) -> Result<&Queue, Error> {
        let index = self.by_name.get(name);
        let index = index.ok_or_else(|| Error::QueueNotFound(name.to_owned()))?;
        Ok(&self.queues[index.0])
    }

    fn lease(&self, queue: &Queue, id: &str) -> Option<LeaseRef> {
        LeaseRef::decode(self.store.secret(), &queue.spec.name, id)
    }

    fn follow_ups(
        &self,
        completion: usize,
        follow_ups: Vec<(String, NewItem)>,
    ) -> Result<Vec<FollowUp>, Error> {
        let place = |at| format!("completions[{completion}].follow_ups[{at}]");
        follow_ups
            .into_iter()
            .enumerate()
            .map(|(at, (queue, item))| {
                limits::delay(format!("{}.item.delay", place(at)), item.delay)?;
                let queue = *self.by_name.get(&queue).ok_or_else(|| {
                    let field = format!("{}.queue", place(at));
                    Error::invalid(field, format!("there is no queue {queue:?}"))
                })?;
                Ok(FollowUp { queue, item })
            })
            .collect()
    }

    async fn settle(
        &self,
        queue: &Queue,
        settlements: Vec<(Option<LeaseRef>, Ending)>,
        field: &str,
    ) -> Result<Vec<Option<State>>, Error> {
        self.counts.call(Operation::Settle);
        let settlements: Vec<Option<Settlement>> = settlements
            .into_iter()
            .map(|(lease, ending)| match (lease, ending) {
                (Some(lease), ending) => Some(Settlement { lease, ending }),
                // No lease, yet a follow-up that can't be added is refused all the same: the store looks at it.
                (None, ending @ Ending::Complete { .. }) => Some(Settlement {
                    lease: LeaseRef::nobodys(),
                    ending,
                }),
                (None, _) => None,
            })
            .collect();
        let asked = settlements.iter().enumerate();
        let places: Vec<usize> = asked
            .filter(|(_, asked)| asked.is_some())
            .map(|(at, _)| at)
            .collect();
        let run = |settlements| queue.settlements.run(settlements);
        known(settlements.into_iter(), run)
            .await
            .map_err(|error| match error {
                StoreError::Rejected(rejection) => match rejection.follow_up {
                    Some(follow_up) => {
                        let place = places.get(rejection.item).copied().unwrap_or_default();
                        let item = format!("{field}[{place}].follow_ups[{follow_up}].item");
                        Error::invalid(column_path(&item, &rejection), rejection.problem)
                    }
                    None => StoreError::Rejected(rejection).into(),
                },
                other => other.into(),
            })
    }
}

/// Runs those of the requests that name a lease, and puts the answers in the places of all.
async fn known<I, R, Run>(
    requests: impl Iterator<Item = Option<I>>,
    run: impl FnOnce(Vec<I>) -> Run,
) -> Result<Vec<Option<R>>, StoreError>
where
    Run: Future<Output = Result<Vec<Option<R>>, StoreError>>,
{
    let mut known = Vec::new();
    let places: Vec<bool> = requests
        .map(|request| request.map(|request| known.push(request)).is_some())
        .collect();
    let mut answers = run(known).await?.into_iter();
    let answer = |known| {
        if known {
            answers.next().flatten()
        } else {
            None
        }
    };
    Ok(places.into_iter().map(answer).collect())
}

/// Returns the path of the field that a rejection is about.
fn column_path(item: &str, rejection: &Rejection) -> String {
    match &rejection.column {
        Some(column) => format!("{item}.columns[{column:?}]"),
        None => item.to_owned(),
    }
}
