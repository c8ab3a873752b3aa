//! Group commit: while a statement is under way, calls of the same kind on the same queue collect, and the next statement
//! takes them all. No call waits for company; where the store runs several statements at once, a full group does not wait
//! for the statement before it.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::store::{Rejection, StoreError};

/// Calls stop joining a statement once it has this many items.
const GROUP: usize = 1_000;
/// What makes a statement worth running beside another one: with less, the database would run many small ones.
const FULL_CALLS: usize = 16;
const FULL_ITEMS: usize = 250;

/// The statement that a lane runs: it answers each item, in order.
type Statement<I, R> =
    Box<dyn Fn(Arc<[I]>) -> BoxFuture<'static, Result<Vec<R>, StoreError>> + Send + Sync>;

struct Call<I, R> {
    items: Vec<I>,
    caller: oneshot::Sender<Result<Vec<R>, StoreError>>,
}

/// One kind of call on one queue.
pub(super) struct GroupCommit<I, R> {
    calls: mpsc::UnboundedSender<Call<I, R>>,
}

impl<I, R> Clone for GroupCommit<I, R> {
    fn clone(&self) -> Self {
        Self {
            calls: self.calls.clone(),
        }
    }
}

impl<I, R> GroupCommit<I, R>
where
    I: Clone + Send + Sync + 'static,
    R: Send + 'static,
{
    /// Starts the lane's task, which runs up to `width` statements at once, and ends once `close` is cancelled, or every
    /// handle dropped, and every call answered.
    pub(super) fn spawn(
        tasks: &TaskTracker,
        close: &CancellationToken,
        width: usize,
        statement: impl Fn(Arc<[I]>) -> BoxFuture<'static, Result<Vec<R>, StoreError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let (calls, inbox) = mpsc::unbounded_channel();
        let served = async move |close| {
            let statement: Statement<I, R> = Box::new(statement);
            serve(inbox, &statement, width, close).await;
        };
        tasks.spawn(served(close.clone()));
        Self { calls }
    }

    /// Runs the items with whatever else is waiting; they run to their end even if the caller goes away.
    pub(super) async fn run(&self, items: Vec<I>) -> Result<Vec<R>, StoreError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let answer = self.send(items);
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Runs the items for nobody.
    pub(super) fn post(&self, items: Vec<I>) {
        if !items.is_empty() {
            drop(self.send(items));
        }
    }

    fn send(&self, items: Vec<I>) -> oneshot::Receiver<Result<Vec<R>, StoreError>> {
        let (caller, answer) = oneshot::channel();
        // If the lane has ended, the caller sees its sender dropped.
        let _ = self.calls.send(Call { items, caller });
        answer
    }
}

pub(super) fn ended() -> StoreError {
    StoreError::unavailable("the broker has stopped".to_owned())
}

async fn serve<I: Clone + Send + Sync, R: Send>(
    mut inbox: mpsc::UnboundedReceiver<Call<I, R>>,
    statement: &Statement<I, R>,
    width: usize,
    close: CancellationToken,
) {
    let mut running = FuturesUnordered::new();
    let mut waiting = Waiting::default();
    loop {
        while waiting.items < GROUP
            && let Ok(call) = inbox.try_recv()
        {
            waiting.push(call);
        }
        let free = running.len() < width;
        if running.is_empty() && !waiting.calls.is_empty() || free && waiting.is_full() {
            running.push(run_group(std::mem::take(&mut waiting).calls, statement));
            continue;
        }
        tokio::select! {
            biased;
            Some(()) = running.next() => {}
            // With no statement to give it to, a call is not worth waking for.
            call = inbox.recv(), if free => match call {
                Some(call) => waiting.push(call),
                None if running.is_empty() => return,
                None => while running.next().await.is_some() {},
            },
            () = close.cancelled(), if !inbox.is_closed() => inbox.close(),
        }
    }
}

/// Calls that the next statement takes.
struct Waiting<I, R> {
    calls: Vec<Call<I, R>>,
    items: usize,
}

impl<I, R> Default for Waiting<I, R> {
    fn default() -> Self {
        Self {
            calls: Vec::new(),
            items: 0,
        }
    }
}

impl<I, R> Waiting<I, R> {
    fn push(&mut self, call: Call<I, R>) {
        self.items += call.items.len();
        self.calls.push(call);
    }

    fn is_full(&self) -> bool {
        self.calls.len() >= FULL_CALLS || self.items >= FULL_ITEMS
    }
}

/// Runs the group as one statement. A call that the store rejects is told so and left out, and the others run again:
/// nobody's call fails because of another's.
async fn run_group<I: Clone, R>(mut group: Vec<Call<I, R>>, statement: &Statement<I, R>) {
    while !group.is_empty() {
        let items: Arc<[I]> = match &mut *group {
            [only] => std::mem::take(&mut only.items).into(),
            several => several
                .iter()
                .flat_map(|call| call.items.iter().cloned())
                .collect(),
        };
        let size = items.len();
        match statement(items).await {
            Ok(replies) if replies.len() == size => {
                let mut replies = replies.into_iter();
                let last = group.len() - 1;
                for (at, call) in group.into_iter().enumerate() {
                    let count = if at == last { size } else { call.items.len() };
                    let _ = call.caller.send(Ok(replies.by_ref().take(count).collect()));
                }
                return;
            }
            Ok(replies) => {
                let error = StoreError::Bug(format!("{} answers to {size} items", replies.len()));
                return fail(group, &error);
            }
            Err(StoreError::Rejected(rejection)) => {
                let mut first = 0;
                let place = group.iter().position(|call| {
                    first += call.items.len();
                    rejection.item < first
                });
                // The only call of a group has handed its items on: it is the one.
                let place = place.unwrap_or(group.len() - 1);
                let before: usize = group[..place].iter().map(|call| call.items.len()).sum();
                let call = group.remove(place);
                let _ = call.caller.send(Err(StoreError::Rejected(Rejection {
                    item: rejection.item.saturating_sub(before),
                    ..rejection
                })));
            }
            Err(error) => return fail(group, &error),
        }
    }
}

fn fail<I, R>(group: Vec<Call<I, R>>, error: &StoreError) {
    for call in group {
        let _ = call.caller.send(Err(error.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::sync::Mutex;
    use tokio::sync::Semaphore;

    type Groups = Arc<Mutex<Vec<Vec<u32>>>>;

    /// A statement that doubles, rejects 13, waits for a permit, and remembers its groups.
    fn doubling(tasks: &TaskTracker) -> (GroupCommit<u32, u32>, Arc<Semaphore>, Groups) {
        doubling_by(1, tasks)
    }

    fn doubling_by(
        width: usize,
        tasks: &TaskTracker,
    ) -> (GroupCommit<u32, u32>, Arc<Semaphore>, Groups) {
        let permits = Arc::new(Semaphore::new(0));
        let groups = Arc::new(Mutex::new(Vec::new()));
        let (gate, seen) = (permits.clone(), groups.clone());
        let lane = GroupCommit::spawn(
            tasks,
            &CancellationToken::new(),
            width,
            move |items: Arc<[u32]>| {
                let (gate, seen) = (gate.clone(), seen.clone());
                async move {
                    seen.lock().expect("sound").push(items.to_vec());
                    gate.acquire().await.expect("open").forget();
                    match items.iter().position(|item| *item == 13) {
                        None => Ok(items.iter().map(|item| item * 2).collect()),
                        Some(item) => Err(StoreError::Rejected(Rejection {
                            item,
                            follow_up: None,
                            column: None,
                            problem: "unlucky".to_owned(),
                        })),
                    }
                }
                .boxed()
            },
        );
        (lane, permits, groups)
    }

    #[tokio::test]
    async fn calls_that_come_while_a_statement_runs_share_the_next_one() {
        let (lane, permits, groups) = doubling(&TaskTracker::new());
        let first = lane.send(vec![1]);
        tokio::task::yield_now().await;
        let rest = [lane.send(vec![2, 3]), lane.send(vec![4])];
        permits.add_permits(2);
        assert_eq!(first.await.expect("answered"), Ok(vec![2]));
        let [second, third] = rest;
        assert_eq!(second.await.expect("answered"), Ok(vec![4, 6]));
        assert_eq!(third.await.expect("answered"), Ok(vec![8]));
        assert_eq!(*groups.lock().expect("sound"), [vec![1], vec![2, 3, 4]]);
    }

    #[tokio::test]
    async fn a_full_group_does_not_wait_for_the_statement_before_it_and_one_that_is_not_does() {
        let (lane, permits, groups) = doubling_by(2, &TaskTracker::new());
        let seen = || groups.lock().expect("sound").clone();
        let first = lane.send(vec![1]);
        tokio::task::yield_now().await;
        let lonely = lane.send(vec![2]);
        tokio::task::yield_now().await;
        assert_eq!(seen(), [vec![1]]);
        let many: Vec<_> = (20..=34).map(|item| lane.send(vec![item])).collect();
        tokio::task::yield_now().await;
        let full: Vec<u32> = std::iter::once(2).chain(20..=34).collect();
        assert_eq!(seen(), [vec![1], full.clone()]);
        // No third one, however much waits.
        let rest = lane.send(vec![5; GROUP]);
        tokio::task::yield_now().await;
        assert_eq!(seen().len(), 2);
        permits.add_permits(3);
        assert_eq!(first.await.expect("answered"), Ok(vec![2]));
        assert_eq!(lonely.await.expect("answered"), Ok(vec![4]));
        for (call, item) in many.into_iter().zip(20..) {
            assert_eq!(call.await.expect("answered"), Ok(vec![item * 2]));
        }
        assert_eq!(rest.await.expect("answered").expect("done").len(), GROUP);
    }

    #[tokio::test]
    async fn a_rejected_call_fails_alone_and_names_its_own_item() {
        let (lane, permits, _) = doubling(&TaskTracker::new());
        let calls = [
            lane.send(vec![1, 2]),
            lane.send(vec![5, 13]),
            lane.send(vec![7]),
        ];
        permits.add_permits(2);
        let [first, second, third] = calls;
        assert_eq!(first.await.expect("answered"), Ok(vec![2, 4]));
        assert_eq!(third.await.expect("answered"), Ok(vec![14]));
        match second.await.expect("answered") {
            Err(StoreError::Rejected(rejection)) => assert_eq!(rejection.item, 1),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_lane_answers_all_that_it_was_given_before_it_ends() {
        let tasks = TaskTracker::new();
        let (lane, permits, groups) = doubling(&tasks);
        lane.post(vec![1]);
        drop(lane);
        permits.add_permits(1);
        tasks.close();
        tasks.wait().await;
        assert_eq!(*groups.lock().expect("sound"), [vec![1]]);
    }
}
