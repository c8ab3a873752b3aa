//! The group commits of a queue's heartbeats, settlements, releases of whole claims, and new items.
//!
//! Each method connects a [`GroupCommit`] to one method of the store. After an operation succeeds, the tasks that its
//! effects concern are woken: the claim dispatcher if items are ready, the reaper if something falls due earlier.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_store::{
    Concurrency, Ending, EnqueueOnce, EnqueuedOnce, Leases, NewItem, OutageCause, QueueIndex,
    Refusal, Renewal, Renewed, Settled, Settlement, StoreError,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::admission::Budgets;
use super::group_commit::GroupCommit;
use super::operation_metrics::Operation;
use super::statement_spans::QueueSpans;
use super::wakeups::Wakeups;

/// The number of Enqueue requests with request ids of one queue that run at the same time. On a database server each takes a
/// connection.
const MAX_CONCURRENT_REQUESTS: usize = 8;

/// The group-commit tasks of all queues.
#[derive(Default)]
pub(super) struct GroupCommitTasks {
    tasks: TaskTracker,
    close: CancellationToken,
}

impl GroupCommitTasks {
    /// Stops taking calls and waits until every call that was taken has been answered.
    pub(super) async fn stop(&self) {
        self.close.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Starts the group commits of a queue.
pub(super) struct WriteOperations<'a> {
    pub(super) tasks: &'a GroupCommitTasks,
    pub(super) store: Arc<dyn Leases>,
    pub(super) queue: QueueIndex,
    /// Those of every queue, by [`QueueIndex`], because a completion can add items to other queues.
    pub(super) wakeups: Arc<[Arc<Wakeups>]>,
    pub(super) spans: &'a QueueSpans,
}

impl WriteOperations<'_> {
    /// Starts a group commit. With `budgets`, calls that have waited too long are refused.
    fn spawn<I: Clone + Send + Sync + 'static, R: Send + 'static>(
        &self,
        operation: Operation,
        budgets: Option<Arc<Budgets>>,
        run: impl Fn(Arc<[I]>) -> BoxFuture<'static, Result<Vec<R>, StoreError>> + Send + Sync + 'static,
    ) -> GroupCommit<I, R> {
        let GroupCommitTasks { tasks, close } = self.tasks;
        let (concurrency, spans) = (self.store.concurrency(), self.spans.of(operation));
        GroupCommit::spawn(tasks, close, concurrency, spans, budgets, run)
    }

    /// Returns the store, the queue and its wake-ups.
    fn parts(&self) -> (Arc<dyn Leases>, QueueIndex, Arc<Wakeups>) {
        let wakeups = self.wakeups[self.queue.0].clone();
        (self.store.clone(), self.queue, wakeups)
    }

    /// Starts the group commit of heartbeats.
    pub(super) fn heartbeat(&self) -> GroupCommit<Renewal, Renewed> {
        let (store, queue, _) = self.parts();
        self.spawn(Operation::Heartbeat, None, move |renewals| {
            let store = store.clone();
            async move { store.heartbeat(queue, renewals).await }.boxed()
        })
    }

    /// Starts the group commit of releases of whole claims. An item is the token of a claim, and its result is the number of released
    /// leases. The response has no result for a single claim. So if another program has locked the row of one of its leases, the result
    /// is an outage, after which every client sends the call again.
    pub(super) fn release_claims(&self) -> GroupCommit<Uuid, Result<usize, StoreError>> {
        let (store, queue, wakeups) = self.parts();
        self.spawn(Operation::Settle, None, move |tokens: Arc<[Uuid]>| {
            let (store, wakeups) = (store.clone(), wakeups.clone());
            async move {
                let released = store.release_claims(queue, tokens).await?;
                if released.counts.iter().any(|count| *count > 0) {
                    wakeups.items_ready.notify_one();
                }
                let mut counts: Vec<_> = released.counts.into_iter().map(Ok).collect();
                for index in released.locked {
                    let reason = Refusal::locked().to_string();
                    counts[index] = Err(StoreError::outage(OutageCause::Busy, reason));
                }
                Ok(counts)
            }
            .boxed()
        })
    }

    /// Starts the group commit of new items. Under overload it refuses calls.
    pub(super) fn enqueue(&self, budgets: Arc<Budgets>) -> GroupCommit<NewItem, Key> {
        let (store, queue, wakeups) = self.parts();
        let run = move |items: Arc<[NewItem]>| {
            let (store, wakeups) = (store.clone(), wakeups.clone());
            async move {
                let keys = store.enqueue(queue, items.clone()).await?;
                for item in &*items {
                    wakeups.notify_item_ready_in(item.delay);
                }
                Ok(keys)
            }
            .boxed()
        };
        self.spawn(Operation::Enqueue, Some(budgets), run)
    }

    /// Starts the task for new items with request ids. An item of a call is a whole request.
    ///
    /// Each request is one operation of the store, because a transaction remembers one request. Those of a call group run at the
    /// same time, up to [`MAX_CONCURRENT_REQUESTS`]. So a request that is sent again fails no other.
    pub(super) fn enqueue_once(
        &self,
    ) -> GroupCommit<Arc<EnqueueOnce>, Result<EnqueuedOnce, StoreError>> {
        let (store, queue, wakeups) = self.parts();
        GroupCommit::spawn(
            &self.tasks.tasks,
            &self.tasks.close,
            Concurrency::Parallel(1),
            self.spans.of(Operation::Enqueue),
            None,
            move |requests: Arc<[Arc<EnqueueOnce>]>| {
                let (store, wakeups) = (store.clone(), wakeups.clone());
                async move {
                    let add = |request: Arc<EnqueueOnce>| {
                        let (store, wakeups) = (store.clone(), wakeups.clone());
                        async move {
                            let outcome = store.enqueue_once(queue, request.clone()).await?;
                            if let EnqueuedOnce::Added(_) = outcome {
                                for item in &request.items {
                                    wakeups.notify_item_ready_in(item.delay);
                                }
                            }
                            Ok(outcome)
                        }
                    };
                    let operations: Vec<_> = requests.iter().cloned().map(add).collect();
                    let outcomes = stream::iter(operations).buffered(MAX_CONCURRENT_REQUESTS);
                    Ok(outcomes.collect().await)
                }
                .boxed()
            },
        )
    }

    /// Starts the group commit of settlements.
    pub(super) fn settle(&self, spec: &QueueSpec) -> GroupCommit<Settlement, Settled> {
        let (on_complete, takes_turns) = (spec.on_complete.clone(), spec.takes_turns());
        let (store, queue, wakeups) = (self.store.clone(), self.queue, self.wakeups.clone());
        let run = move |settlements: Arc<[Settlement]>| {
            let (store, wakeups, on_complete) =
                (store.clone(), wakeups.clone(), on_complete.clone());
            async move {
                let results = store.settle(queue, settlements.clone()).await?.results;
                for (settlement, result) in settlements.iter().zip(&results) {
                    if let Some(state) = result.state() {
                        let ending = &settlement.ending;
                        wake_after_settlement(ending, state, queue, &on_complete, &wakeups);
                    }
                }
                let ended = |result: &Settled| result.state().is_some();
                if takes_turns && results.iter().any(ended) {
                    // The end of a lease can free other items of its group, or the place of a lease.
                    wakeups[queue.0].items_ready.notify_one();
                }
                Ok(results)
            }
            .boxed()
        };
        self.spawn(Operation::Settle, None, run)
    }
}

/// Wakes the tasks that an applied settlement concerns: those of the settled item's queue, and those of the queues that
/// got follow-up items. `state` is the item's state after the settlement.
fn wake_after_settlement(
    ending: &Ending,
    state: State,
    queue: QueueIndex,
    on_complete: &OnComplete,
    wakeups: &[Arc<Wakeups>],
) {
    let delay = match ending {
        Ending::Complete { .. } => match on_complete {
            OnComplete::Recur(interval) => *interval,
            _ => Duration::ZERO,
        },
        Ending::Fail { retry, .. } => retry.unwrap_or_default(),
        Ending::Release { delay } => *delay,
    };
    match state {
        State::Ready => wakeups[queue.0].items_ready.notify_one(),
        // Only the reaper makes a delayed item ready, even if its delay is zero.
        State::Delayed => wakeups[queue.0].reaper_timer.advance_to(delay),
        State::Leased | State::Completed | State::Dead => {}
    }
    if let Ending::Complete { follow_ups } = ending {
        for follow_up in follow_ups {
            wakeups[follow_up.queue.0].notify_item_ready_in(follow_up.item.delay);
        }
    }
}
