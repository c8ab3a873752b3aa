//! Group commit: runs the calls of several callers as one store operation.
//!
//! Each [`GroupCommit`] serves one kind of call on one queue. While its operation runs, new calls collect. When the
//! operation ends, the next one takes all of them, up to [`MAX_GROUP_ITEMS`]. Under load a
//! transaction, with its log flush, is then paid once for many calls. An idle broker adds no delay, because a call that
//! finds no operation running starts one at once.
//!
//! An operation can start beside those that run (`overlap.rs`).
//!
//! Calls are collected in two other places, for other reasons:
//! - `claim_dispatcher.rs` groups claims, which also wait until items are ready.
//! - `store/sqlite/writer.rs` runs operations of any kind and queue in one transaction, so that they share one flush.
//!
//! Invariants:
//! - Every call gets exactly one reply, even when the broker stops.
//! - A call that has been submitted runs to its end, even if its caller goes away. Only a call whose deadline passes is
//!   withdrawn, if its group has not begun.
//! - If the store rejects one call, only that call fails.

mod backlog;
mod call_group;

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use lease_broker_store::{Concurrency, Rejection, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::backlog::Backlog;
use self::call_group::{Call, CallGroup, CallResult};
pub(super) use self::call_group::{CallFailure, MAX_GROUP_ITEMS};
use super::admission::{Arrivals, Budgets, Shedding};
use super::call_context::CallContext;
use super::overlap::Overlap;
use super::statement_spans::StatementSpans;
use crate::call_trace::RecordedCall;

/// The store operation that a [`GroupCommit`] runs. It returns one result per item, in the order of the items.
type StoreOperation<I, R> =
    Box<dyn Fn(Arc<[I]>) -> BoxFuture<'static, Result<Vec<R>, StoreError>> + Send + Sync>;

/// A handle to the task that groups one kind of call on one queue. `I` is an item of a call, `R` is its result.
pub(super) struct GroupCommit<I, R> {
    calls: mpsc::UnboundedSender<Call<I, R>>,
    arrivals: Arrivals,
}

impl<I, R> Clone for GroupCommit<I, R> {
    fn clone(&self) -> Self {
        Self {
            calls: self.calls.clone(),
            arrivals: self.arrivals.clone(),
        }
    }
}

impl<I, R> GroupCommit<I, R>
where
    I: Clone + Send + Sync + 'static,
    R: Send + 'static,
{
    /// Starts the task. `concurrency`: of the store's operations. With `budgets`, calls that have waited too long are refused.
    ///
    /// The task stops taking calls when `close` is cancelled or every handle is dropped. It ends when the calls that it
    /// has taken are answered.
    pub(super) fn spawn(
        tasks: &TaskTracker,
        close: &CancellationToken,
        concurrency: Concurrency,
        spans: StatementSpans,
        budgets: Option<Arc<Budgets>>,
        operation: impl Fn(Arc<[I]>) -> BoxFuture<'static, Result<Vec<R>, StoreError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let operation: StoreOperation<I, R> = Box::new(operation);
        let (calls, inbox) = mpsc::unbounded_channel();
        let arrivals = Arrivals::default();
        let backlog = budgets.map(|budgets| Backlog::new(Shedding::new(arrivals.clone(), budgets)));
        let run = async move |close| {
            run_groups(inbox, &operation, concurrency, &spans, backlog, close).await;
        };
        tasks.spawn(run(close.clone()));
        Self { calls, arrivals }
    }

    /// Runs the items, together with the calls that are waiting at the same time. Returns one result per item, in
    /// order.
    ///
    /// The items run to their end even if the returned future is dropped, unless the call is withdrawn.
    ///
    /// # Errors
    /// The store's error, or the refusal of a call that has waited too long.
    pub(super) async fn submit(&self, context: &CallContext, items: Vec<I>) -> CallResult<R> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let reply = self.send(context, items);
        let is_stopped = self.calls.is_closed();
        reply.await.unwrap_or_else(|_| {
            let error = broker_stopped();
            Err(CallFailure::Store(if is_stopped {
                error.not_applied()
            } else {
                error
            }))
        })
    }

    /// Runs the items in the background. Their results and errors are discarded.
    pub(super) fn submit_detached(&self, items: Vec<I>) {
        if !items.is_empty() {
            drop(self.send(&CallContext::default(), items));
        }
    }

    fn send(&self, context: &CallContext, items: Vec<I>) -> oneshot::Receiver<CallResult<R>> {
        let (reply, receiver) = oneshot::channel();
        // If the task has ended, the call is dropped with its `reply`, and the receiver reports that.
        let _ = self.calls.send(Call {
            items,
            arrival: self.arrivals.next(),
            source: context.source_number(),
            recorded: context.recorded.clone(),
            beginning: context.beginning.clone(),
            reply,
        });
        receiver
    }
}

/// Returns the error for calls that arrive after the broker has stopped.
pub(super) fn broker_stopped() -> StoreError {
    StoreError::unavailable("the broker has stopped; send the call to another broker".to_owned())
}

async fn run_groups<I: Clone + Send + Sync, R: Send>(
    mut inbox: mpsc::UnboundedReceiver<Call<I, R>>,
    operation: &StoreOperation<I, R>,
    concurrency: Concurrency,
    spans: &StatementSpans,
    mut backlog: Option<Backlog<I, R>>,
    close: CancellationToken,
) {
    let mut running = FuturesUnordered::new();
    let mut overlap = Overlap::new(concurrency);
    let mut next_group = CallGroup::default();
    loop {
        match &mut backlog {
            Some(backlog) => backlog.fill(&mut next_group, &mut inbox),
            None => {
                while next_group.takes_calls()
                    && let Ok(call) = inbox.try_recv()
                {
                    next_group.push(call);
                }
            }
        }
        if overlap.may_start(running.len(), next_group.items(), next_group.is_large()) {
            overlap.start(next_group.items());
            running.push(run_group(next_group.take(), operation, spans));
            if let Some(backlog) = &mut backlog {
                backlog.operation_starts(next_group.calls.is_empty() && inbox.is_empty());
            }
            continue;
        }
        tokio::select! {
            biased;
            Some(()) = running.next() => {}
            // Without room a new call could not start, so the task does not wake up for it. The call stays in the
            // inbox until an operation ends.
            call = inbox.recv(), if overlap.has_room(running.len()) => match call {
                Some(call) => next_group.push(call),
                None if running.is_empty() => return,
                None => while running.next().await.is_some() {},
            },
            () = close.cancelled(), if !inbox.is_closed() => inbox.close(),
        }
    }
}

/// A call whose items are in the list of its group.
struct WaitingCall<R> {
    item_count: usize,
    recorded: Option<Arc<RecordedCall>>,
    reply: oneshot::Sender<CallResult<R>>,
}

/// Runs a call group as one store operation and answers its calls.
///
/// If the store rejects items, the calls of these items get the error and leave the group, and the operation runs
/// again for the remaining calls. Otherwise one bad item would fail every call that happened to share the operation.
/// Any other error goes to every call.
async fn run_group<I: Clone, R>(
    group: Vec<Call<I, R>>,
    operation: &StoreOperation<I, R>,
    spans: &StatementSpans,
) {
    let mut items = Vec::with_capacity(group.iter().map(|call| call.items.len()).sum());
    let mut waiting = Vec::with_capacity(group.len());
    let begun = group.into_iter().filter(|call| call.beginning.begin());
    for mut call in begun {
        waiting.push(WaitingCall {
            item_count: call.items.len(),
            recorded: call.recorded,
            reply: call.reply,
        });
        items.append(&mut call.items);
    }
    let mut items: Arc<[I]> = items.into();
    while !waiting.is_empty() {
        let start = SystemTime::now();
        let outcome = operation(items.clone()).await;
        let recorded = waiting.iter().map(|call| call.recorded.clone());
        spans.report(recorded, items.len(), start, &outcome);
        match outcome {
            Ok(results) if results.len() == items.len() => {
                let mut results = results.into_iter();
                for call in waiting {
                    let own = results.by_ref().take(call.item_count);
                    let _ = call.reply.send(Ok(own.collect()));
                }
                return;
            }
            Ok(results) => {
                let error = StoreError::Bug(format!(
                    "the store returned {} results for {} items",
                    results.len(),
                    items.len()
                ));
                return fail_all(waiting, &error);
            }
            Err(StoreError::Rejected(rejection)) if rejection.item.is_some() => {
                (waiting, items) = reject_calls(waiting, &items, rejection);
            }
            Err(error) => return fail_all(waiting, &error),
        }
    }
}

/// Answers the calls whose items were rejected. Returns the other calls and their items.
///
/// A rejected call leaves the group with all its items. If it has several, a later item may have been refused only because
/// of one of them, for example because both have the same key. So the rejections after such a call do not count.
fn reject_calls<I: Clone, R>(
    group: Vec<WaitingCall<R>>,
    items: &[I],
    mut first: Rejection,
) -> (Vec<WaitingCall<R>>, Arc<[I]>) {
    let more = std::mem::take(&mut first.more);
    let mut rejections = std::iter::once(first).chain(more).peekable();
    let mut others = Vec::with_capacity(group.len());
    let mut items_of_others = Vec::with_capacity(items.len());
    let last = group.len() - 1;
    let mut start = 0;
    let mut certain = true;
    for (index, call) in group.into_iter().enumerate() {
        let end = start + call.item_count;
        // An item that no call has is blamed on the last call, so that the group gets smaller.
        let is_rejected =
            |rejection: &Rejection| index == last || rejection.item.is_some_and(|item| item < end);
        match rejections.next_if(|rejection| certain && is_rejected(rejection)) {
            None => {
                items_of_others.extend_from_slice(&items[start..end]);
                others.push(call);
            }
            Some(rejection) => {
                certain = call.item_count == 1;
                let item = rejection.item.map(|item| item.saturating_sub(start));
                let rejection = Rejection { item, ..rejection };
                let rejected = CallFailure::Store(StoreError::Rejected(rejection));
                let _ = call.reply.send(Err(rejected));
            }
        }
        start = end;
    }
    (others, items_of_others.into())
}

/// Answers every call of the group with a copy of the error.
fn fail_all<R>(group: Vec<WaitingCall<R>>, error: &StoreError) {
    for call in group {
        let _ = call.reply.send(Err(CallFailure::Store(error.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::call_group::MAX_GROUP_ITEMS;
    use super::*;
    use crate::broker::error::Error;
    use crate::broker::operation_metrics::Operation;
    use crate::broker::statement_spans::QueueSpans;
    use futures_util::FutureExt as _;
    use lease_broker_store::{Problem, ProblemKind};
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::sync::Semaphore;

    fn thirteen() -> Problem {
        Problem::new(ProblemKind::Other, "13 is rejected")
    }

    type Groups = Arc<Mutex<Vec<Vec<u32>>>>;

    /// Operations that run one after the other.
    const ALONE: Concurrency = Concurrency::Parallel(1);

    /// Starts a group commit whose operation doubles each number.
    ///
    /// The operation records its items, then waits for a permit, then rejects the first 13 among its items.
    fn doubling(
        concurrency: Concurrency,
        budgets: Option<Arc<Budgets>>,
        tasks: &TaskTracker,
    ) -> (GroupCommit<u32, u32>, Arc<Semaphore>, Groups) {
        let permits = Arc::new(Semaphore::new(0));
        let groups = Arc::new(Mutex::new(Vec::new()));
        let (gate, started) = (permits.clone(), groups.clone());
        let operation = move |items: Arc<[u32]>| {
            let (gate, started) = (gate.clone(), started.clone());
            async move {
                started.lock().expect("not poisoned").push(items.to_vec());
                gate.acquire().await.expect("not closed").forget();
                let rejected = (0..items.len()).filter(|index| items[*index] == 13);
                let mut rejected = rejected.map(|item| Rejection::of_item(item, None, thirteen()));
                match rejected.next() {
                    None => Ok(items.iter().map(|item| item * 2).collect()),
                    Some(first) => Err(StoreError::Rejected(Rejection {
                        more: rejected.collect(),
                        ..first
                    })),
                }
            }
            .boxed()
        };
        let (close, spans) = (CancellationToken::new(), QueueSpans::none());
        let spans = spans.of(Operation::Other);
        let numbers = GroupCommit::spawn(tasks, &close, concurrency, spans, budgets, operation);
        (numbers, permits, groups)
    }

    #[tokio::test]
    async fn calls_during_an_operation_share_the_next_one() {
        let (numbers, permits, groups) = doubling(ALONE, None, &TaskTracker::new());
        let first = numbers.send(&CallContext::default(), vec![1]);
        tokio::task::yield_now().await;
        let rest = [
            numbers.send(&CallContext::default(), vec![2, 3]),
            numbers.send(&CallContext::default(), vec![4]),
        ];
        permits.add_permits(2);
        assert_eq!(first.await.expect("answered"), Ok(vec![2]));
        let [second, third] = rest;
        assert_eq!(second.await.expect("answered"), Ok(vec![4, 6]));
        assert_eq!(third.await.expect("answered"), Ok(vec![8]));
        let groups = groups.lock().expect("not poisoned");
        assert_eq!(*groups, [vec![1], vec![2, 3, 4]]);
    }

    #[tokio::test]
    async fn rejected_calls_leave_their_group_together() {
        let (numbers, permits, groups) = doubling(ALONE, None, &TaskTracker::new());
        let first = numbers.send(&CallContext::default(), vec![1]);
        tokio::task::yield_now().await;
        let calls =
            [13, 2, 13, 3, 13].map(|number| numbers.send(&CallContext::default(), vec![number]));
        permits.add_permits(3);
        assert_eq!(first.await.expect("answered"), Ok(vec![2]));
        for (call, expected) in calls.into_iter().zip([None, Some(4), None, Some(6), None]) {
            let rejected = |rejection: &Rejection| rejection.item == Some(0);
            match (call.await.expect("answered"), expected) {
                (Ok(doubled), Some(expected)) => assert_eq!(doubled, [expected]),
                (Err(CallFailure::Store(StoreError::Rejected(rejection))), None)
                    if rejected(&rejection) => {}
                (other, expected) => panic!("{other:?} instead of {expected:?}"),
            }
        }
        let groups = groups.lock().expect("not poisoned");
        assert_eq!(*groups, [vec![1], vec![13, 2, 13, 3, 13], vec![2, 3]]);
    }

    #[tokio::test]
    async fn rejections_behind_a_call_of_several_items_do_not_count() {
        let (numbers, permits, groups) = doubling(ALONE, None, &TaskTracker::new());
        let first = numbers.send(&CallContext::default(), vec![1]);
        tokio::task::yield_now().await;
        let calls = [vec![2, 13], vec![13], vec![3]]
            .map(|numbers_of| numbers.send(&CallContext::default(), numbers_of));
        permits.add_permits(4);
        first.await.expect("answered").expect("not rejected");
        let mut results = Vec::new();
        for call in calls {
            results.push(call.await.expect("answered").is_ok());
        }
        assert_eq!(results, [false, false, true]);
        let groups = groups.lock().expect("not poisoned");
        assert_eq!(*groups, [vec![1], vec![2, 13, 13, 3], vec![13, 3], vec![3]]);
    }

    #[tokio::test]
    async fn large_group_starts_early_and_small_group_waits() {
        let (numbers, permits, groups) =
            doubling(Concurrency::Parallel(2), None, &TaskTracker::new());
        let started = || groups.lock().expect("not poisoned").clone();
        let first = numbers.send(&CallContext::default(), vec![1]);
        tokio::task::yield_now().await;
        let single = numbers.send(&CallContext::default(), vec![2]);
        tokio::task::yield_now().await;
        assert_eq!(started(), [vec![1]]);
        let more: Vec<_> = (20..=34)
            .map(|item| numbers.send(&CallContext::default(), vec![item]))
            .collect();
        tokio::task::yield_now().await;
        let large: Vec<u32> = std::iter::once(2).chain(20..=34).collect();
        assert_eq!(started(), [vec![1], large.clone()]);
        // Two operations run, which is the maximum. No third one starts, even for the largest group.
        let rest = numbers.send(&CallContext::default(), vec![5; MAX_GROUP_ITEMS]);
        tokio::task::yield_now().await;
        assert_eq!(started().len(), 2);
        permits.add_permits(3);
        assert_eq!(first.await.expect("answered"), Ok(vec![2]));
        assert_eq!(single.await.expect("answered"), Ok(vec![4]));
        for (call, item) in more.into_iter().zip(20..) {
            assert_eq!(call.await.expect("answered"), Ok(vec![item * 2]));
        }
        let rest = rest.await.expect("answered").expect("accepted");
        assert_eq!(rest.len(), MAX_GROUP_ITEMS);
    }

    #[tokio::test]
    async fn small_groups_overlap_while_the_device_keeps_the_last() {
        let (numbers, permits, groups) =
            doubling(Concurrency::Pipelined, None, &TaskTracker::new());
        let started = || groups.lock().expect("not poisoned").clone();
        let mut calls = Vec::new();
        for number in 1..=5 {
            calls.push(numbers.send(&CallContext::default(), vec![number]));
            tokio::task::yield_now().await;
        }
        assert_eq!(started(), [[1], [2], [3], [4]]);
        // A call that does not fit beside the waiting one is not lost.
        calls.push(numbers.send(&CallContext::default(), vec![4; MAX_GROUP_ITEMS]));
        permits.add_permits(6);
        for call in calls {
            call.await.expect("answered").expect("accepted");
        }
        let sizes: Vec<usize> = started().iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 1, 1, 1, 1, MAX_GROUP_ITEMS]);
    }

    #[tokio::test]
    async fn call_that_does_not_fit_begins_the_next_group() {
        let (numbers, permits, groups) = doubling(ALONE, None, &TaskTracker::new());
        let first = numbers.send(&CallContext::default(), vec![1]);
        tokio::task::yield_now().await;
        let half = numbers.send(&CallContext::default(), vec![2; MAX_GROUP_ITEMS / 2]);
        let more = numbers.send(&CallContext::default(), vec![3; MAX_GROUP_ITEMS / 2 + 1]);
        let last = numbers.send(&CallContext::default(), vec![4]);
        permits.add_permits(3);
        for call in [first, half, more, last] {
            call.await.expect("answered").expect("accepted");
        }
        let sizes: Vec<usize> = groups
            .lock()
            .expect("not poisoned")
            .iter()
            .map(Vec::len)
            .collect();
        let half = MAX_GROUP_ITEMS / 2;
        assert_eq!(sizes, [1, half, half + 2]);
    }

    /// Each operation takes one call, and 100 ms.
    #[tokio::test(start_paused = true)]
    async fn calls_that_operations_leave_behind_are_refused() {
        let budgets = Arc::new(Budgets::with_one_place());
        let tasks = TaskTracker::new();
        let (numbers, permits, groups) = doubling(ALONE, Some(budgets), &tasks);
        let calls: Vec<_> = (0..30)
            .map(|number| {
                numbers.send(&CallContext::default(), vec![100 + number; MAX_GROUP_ITEMS])
            })
            .collect();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                permits.add_permits(1);
            }
        });
        let mut served = Vec::new();
        for call in calls {
            match call.await.expect("answered") {
                Ok(_) => served.push(true),
                Err(CallFailure::Refused(Error::Overloaded { .. })) => served.push(false),
                Err(other) => panic!("{other:?}"),
            }
        }
        // The calls arrive before the first operation starts, so that 16 operations start before the others are too late.
        let expected: Vec<_> = (0..30).map(|call| call < 16).collect();
        assert_eq!(served, expected);
        assert_eq!(groups.lock().expect("not poisoned").len(), 16);
        // A call that arrives later is served.
        let answer = numbers
            .send(&CallContext::default(), vec![7])
            .await
            .expect("answered");
        assert_eq!(answer, Ok(vec![14]));
    }

    #[tokio::test]
    async fn rejected_call_fails_alone_with_its_own_item_index() {
        let (numbers, permits, _) = doubling(ALONE, None, &TaskTracker::new());
        let calls = [
            numbers.send(&CallContext::default(), vec![1, 2]),
            numbers.send(&CallContext::default(), vec![5, 13]),
            numbers.send(&CallContext::default(), vec![7]),
        ];
        permits.add_permits(2);
        let [first, second, third] = calls;
        assert_eq!(first.await.expect("answered"), Ok(vec![2, 4]));
        assert_eq!(third.await.expect("answered"), Ok(vec![14]));
        match second.await.expect("answered") {
            Err(CallFailure::Store(StoreError::Rejected(rejection))) => {
                assert_eq!(rejection.item, Some(1));
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn task_ends_after_the_calls_of_dropped_handles() {
        let tasks = TaskTracker::new();
        let (numbers, permits, groups) = doubling(ALONE, None, &tasks);
        numbers.submit_detached(vec![1]);
        drop(numbers);
        permits.add_permits(1);
        tasks.close();
        tasks.wait().await;
        assert_eq!(*groups.lock().expect("not poisoned"), [vec![1]]);
    }
}
