//! The lanes of a queue: which statement each runs, and whom its effects wake.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::group_commit::GroupCommit;
use super::wakeups::Wakeups;
use crate::lease::State;
use crate::queue::{OnComplete, QueueSpec};
use crate::store::{Ending, Extension, Held, NewItem, QueueIndex, Settlement, Store};
use crate::value::Key;

/// The tasks of all lanes, and what ends them.
#[derive(Default)]
pub(super) struct GroupCommitTasks {
    tasks: TaskTracker,
    close: CancellationToken,
}

impl GroupCommitTasks {
    /// Takes no more calls, and waits until all that were taken are answered.
    pub(super) async fn end(&self) {
        self.close.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Starts the lane of heartbeats.
pub(super) fn heartbeat(
    lanes: &GroupCommitTasks,
    store: Arc<dyn Store>,
    queue: QueueIndex,
) -> GroupCommit<Extension, Option<Held>> {
    GroupCommit::spawn(
        &lanes.tasks,
        &lanes.close,
        store.width(),
        move |extensions| {
            let store = store.clone();
            async move { store.heartbeat(queue, extensions).await }.boxed()
        },
    )
}

/// Starts the lane of new items.
pub(super) fn enqueue(
    lanes: &GroupCommitTasks,
    store: Arc<dyn Store>,
    queue: QueueIndex,
    signals: Arc<Wakeups>,
) -> GroupCommit<NewItem, Key> {
    GroupCommit::spawn(
        &lanes.tasks,
        &lanes.close,
        store.width(),
        move |items: Arc<[NewItem]>| {
            let (store, signals) = (store.clone(), signals.clone());
            async move {
                let keys = store.enqueue(queue, items.clone()).await?;
                for item in &*items {
                    signals.item_ready_in(item.delay);
                }
                Ok(keys)
            }
            .boxed()
        },
    )
}

/// Starts the lane of settlements; `signals` are those of every queue, as completions add items to others.
pub(super) fn settle(
    lanes: &GroupCommitTasks,
    store: Arc<dyn Store>,
    queue: QueueIndex,
    spec: &QueueSpec,
    signals: Arc<[Arc<Wakeups>]>,
) -> GroupCommit<Settlement, Option<State>> {
    let on_complete = spec.on_complete.clone();
    GroupCommit::spawn(
        &lanes.tasks,
        &lanes.close,
        store.width(),
        move |settlements: Arc<[Settlement]>| {
            let (store, signals, on_complete) =
                (store.clone(), signals.clone(), on_complete.clone());
            async move {
                let states = store.settle(queue, settlements.clone()).await?;
                for (settlement, state) in settlements.iter().zip(&states) {
                    if let Some(state) = state {
                        tell(&settlement.ending, *state, queue, &on_complete, &signals);
                    }
                }
                Ok(states)
            }
            .boxed()
        },
    )
}

/// Tells of the items that an applied settlement has made ready, or will.
fn tell(
    ending: &Ending,
    state: State,
    queue: QueueIndex,
    on_complete: &OnComplete,
    signals: &[Arc<Wakeups>],
) {
    let delay = match ending {
        Ending::Complete { .. } => match on_complete {
            OnComplete::Recur(every) => *every,
            _ => Duration::ZERO,
        },
        Ending::Fail { retry, .. } => retry.unwrap_or_default(),
        Ending::Release { delay } => *delay,
    };
    match state {
        State::Ready => signals[queue.0].ready.notify_one(),
        // Even one that is due at once is made ready by the reaper.
        State::Delayed => signals[queue.0].due.no_later_than(delay),
        State::Leased | State::Completed | State::Dead => {}
    }
    if let Ending::Complete { follow_ups } = ending {
        for follow_up in follow_ups {
            signals[follow_up.queue.0].item_ready_in(follow_up.item.delay);
        }
    }
}
