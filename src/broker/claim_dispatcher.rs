//! Hands a queue's items to the claims that ask and wait for them, first come first served. However many wait, they cost
//! one poll of the store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::RngExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::group_commit::{GroupCommit, ended};
use super::undelivered::{UndeliveredLeases, releases_of};
use super::wakeups::Wakeups;
use crate::config::Polling;
use crate::lease::State;
use crate::store::{ClaimCall, ClaimedItem, QueueIndex, Settlement, Store, StoreError};

/// The most items, and the most calls, that one statement serves.
const GROUP_ITEMS: usize = 1_000;
const GROUP_CALLS: usize = 256;

/// Takes claims for one queue.
pub(super) struct ClaimDispatcher {
    calls: mpsc::UnboundedSender<PendingClaim>,
    releases: Releases,
}

/// Where leases go back that nobody took.
type Releases = GroupCommit<Settlement, Option<State>>;

/// A claim that has not been answered.
struct PendingClaim {
    call: ClaimCall,
    /// Until when it waits for an item; none: it is answered as soon as the store was asked.
    wait_until: Option<Instant>,
    /// Whether a statement that may get it items is under way or has still to come.
    asking: Arc<AtomicBool>,
    /// Whether leases of an earlier call of the same request, which was given up, are left for this one.
    inherits: bool,
    caller: oneshot::Sender<Result<UndeliveredLeases, StoreError>>,
}

impl ClaimDispatcher {
    /// Starts the task, which answers those who wait when `draining` is cancelled.
    pub(super) fn spawn(
        tasks: &TaskTracker,
        store: Arc<dyn Store>,
        queue: QueueIndex,
        polling: Polling,
        signals: Arc<Wakeups>,
        releases: Releases,
        draining: CancellationToken,
    ) -> Self {
        let (calls, inbox) = mpsc::unbounded_channel();
        let dispatcher = DispatcherTask {
            store,
            queue,
            polling,
            signals,
            releases: releases.clone(),
            arrived: VecDeque::new(),
            waiting: VecDeque::new(),
            sweep_at: 0,
            pause: polling.min,
            next_poll: Instant::now(),
        };
        tasks.spawn(dispatcher.serve(inbox, draining));
        Self { calls, releases }
    }

    /// ClaimDispatcher, and waits up to `wait` for at least one item. If the returned future is dropped, what it would have got is
    /// released.
    pub(super) async fn claim(
        &self,
        call: ClaimCall,
        wait: Option<Duration>,
    ) -> Result<UndeliveredLeases, StoreError> {
        let (caller, mut answer) = oneshot::channel();
        let wait_until = wait.map(|wait| Instant::now() + wait);
        let asking = Arc::new(AtomicBool::new(true));
        let pending = PendingClaim {
            call,
            wait_until,
            asking: asking.clone(),
            inherits: false,
            caller,
        };
        if self.calls.send(pending).is_err() {
            // It drains: there is nothing any more.
            return Ok(UndeliveredLeases::new(Vec::new(), self.releases.clone()));
        }
        let Some(until) = wait_until else {
            return answer.await.unwrap_or_else(|_| Err(ended()));
        };
        tokio::select! {
            answer = &mut answer => return answer.unwrap_or_else(|_| Err(ended())),
            () = tokio::time::sleep_until(until) => {}
        }
        // What a statement under way brings is worth the moment that it takes; nothing else is waited for.
        if !asking.load(Ordering::Acquire) {
            answer.close();
        }
        answer
            .await
            .unwrap_or_else(|_| Ok(UndeliveredLeases::new(Vec::new(), self.releases.clone())))
    }
}

/// The task behind [`ClaimDispatcher`].
struct DispatcherTask {
    store: Arc<dyn Store>,
    queue: QueueIndex,
    polling: Polling,
    signals: Arc<Wakeups>,
    releases: Releases,
    /// ClaimDispatcher for which the store has not been asked yet.
    arrived: VecDeque<PendingClaim>,
    /// ClaimDispatcher that wait, the longest waiting first: when the store was last asked, nothing was left for them.
    waiting: VecDeque<PendingClaim>,
    /// How many waiting claims make it worth looking for those whose callers have gone.
    sweep_at: usize,
    /// The pause before the next poll for rows that other programs made ready.
    pause: Duration,
    next_poll: Instant,
}

impl DispatcherTask {
    async fn serve(
        mut self,
        mut inbox: mpsc::UnboundedReceiver<PendingClaim>,
        draining: CancellationToken,
    ) {
        loop {
            let idle = self.waiting.is_empty();
            let mut ask = false;
            tokio::select! {
                pending = inbox.recv() => match pending {
                    Some(pending) => self.arrived.push_back(pending),
                    None => return,
                },
                () = self.signals.ready.notified(), if !idle => ask = true,
                () = tokio::time::sleep_until(self.next_poll), if !idle => {
                    self.pause = (self.pause * 2).min(self.polling.max);
                    ask = true;
                }
                () = draining.cancelled() => break,
            }
            while let Ok(pending) = inbox.try_recv() {
                self.arrived.push_back(pending);
            }
            // Behind others who wait there is nothing for a claim that can wait too.
            let joins =
                |pending: &PendingClaim| pending.wait_until.is_some() && !pending.call.repeat;
            if !ask && !idle && self.arrived.iter().all(joins) {
                while let Some(pending) = self.arrived.pop_front() {
                    self.nothing_for(pending);
                }
            } else {
                self.ask_store().await;
            }
        }
        // No claim is served any more; those who wait, or come before they notice, are told that there is nothing.
        for pending in self.waiting.drain(..).chain(self.arrived.drain(..)) {
            pending.answer(Ok(Vec::new()), &self.releases);
        }
        inbox.close();
        while let Some(pending) = inbox.recv().await {
            pending.answer(Ok(Vec::new()), &self.releases);
        }
    }

    /// Asks the store for items until nothing is ready or nobody wants any.
    async fn ask_store(&mut self) {
        let mut drained = false;
        loop {
            let group = self.next_group(drained);
            if group.is_empty() {
                break;
            }
            let calls: Arc<[ClaimCall]> =
                group.iter().map(|pending| pending.call.clone()).collect();
            let lists = match self.store.claim(self.queue, calls).await {
                Ok(lists) if lists.len() == group.len() => lists,
                outcome => {
                    let bug = || StoreError::Bug("claims without an answer".to_owned());
                    self.fail_all(group, &outcome.err().unwrap_or_else(bug));
                    break;
                }
            };
            let mut unserved = VecDeque::new();
            let (mut served, mut nobodys) = (Vec::new(), Vec::new());
            for (pending, items) in group.into_iter().zip(lists) {
                drained |= items.len() < pending.call.max_items && !pending.call.repeat;
                if items.is_empty() {
                    drained = true;
                    unserved.push_back(pending);
                } else {
                    self.pause = self.polling.min;
                    self.signals.due.no_later_than(pending.call.duration);
                    let token = pending.call.repeat.then_some(pending.call.token);
                    match pending.answer(Ok(items), &self.releases) {
                        None => served.extend(token),
                        Some(items) => nobodys.push((token, items)),
                    }
                }
            }
            for (token, items) in nobodys {
                self.give_back(token, items, &served).await;
            }
            // They keep their places before those who have waited less.
            let behind = std::mem::take(&mut self.waiting);
            for pending in unserved {
                self.nothing_for(pending);
            }
            self.waiting.extend(behind);
        }
        let jitter = rand::rng().random_range(0.75..1.25);
        self.next_poll = Instant::now() + self.pause.mul_f64(jitter);
    }

    /// Tells everybody that the store fails: asked for one group after another, the last would wait many time-outs long.
    fn fail_all(&mut self, group: Vec<PendingClaim>, error: &StoreError) {
        let others = self.waiting.drain(..).chain(self.arrived.drain(..));
        for pending in group.into_iter().chain(others) {
            pending.answer(Err(error.clone()), &self.releases);
        }
    }

    /// Releases what nobody takes any more. A request id, `token`, may have been sent again meanwhile: what that call has
    /// been `served`, or finds leased when its turn comes, stays; and one that is still to come must not find what is on
    /// its way back.
    async fn give_back(&mut self, token: Option<Uuid>, items: Vec<ClaimedItem>, served: &[Uuid]) {
        let Some(token) = token else {
            drop(UndeliveredLeases::new(items, self.releases.clone()));
            return;
        };
        if served.contains(&token) {
            return;
        }
        let mut arrived = self.arrived.iter_mut();
        match arrived.find(|later| later.call.token == token && !later.caller.is_closed()) {
            Some(later) => later.inherits = true,
            None => {
                // If it fails they expire.
                let _ = self.releases.run(releases_of(items)).await;
            }
        }
    }

    /// Takes the claims that the next statement serves. Once nothing is ready, only those that may hold leases already
    /// are worth one; the others are told, or wait.
    fn next_group(&mut self, drained: bool) -> Vec<PendingClaim> {
        let mut group: Vec<PendingClaim> = Vec::new();
        let mut items = 0;
        while items < GROUP_ITEMS && group.len() < GROUP_CALLS {
            let next = if drained {
                self.arrived.pop_front()
            } else {
                let longest = self.waiting.pop_front();
                longest.or_else(|| self.arrived.pop_front())
            };
            let Some(pending) = next else { break };
            if pending.caller.is_closed() && !pending.inherits {
                continue;
            }
            if drained && !pending.call.repeat {
                self.nothing_for(pending);
                continue;
            }
            if !group.is_empty() && items + pending.call.max_items > GROUP_ITEMS {
                if pending.asking.load(Ordering::Relaxed) {
                    self.arrived.push_front(pending);
                } else {
                    self.waiting.push_front(pending);
                }
                break;
            }
            pending.asking.store(true, Ordering::Release);
            items += pending.call.max_items;
            group.push(pending);
        }
        group
    }

    /// Lets a claim wait for which there was nothing, or tells it so.
    fn nothing_for(&mut self, pending: PendingClaim) {
        if pending
            .wait_until
            .is_none_or(|until| until <= Instant::now())
        {
            pending.answer(Ok(Vec::new()), &self.releases);
            return;
        }
        pending.asking.store(false, Ordering::Release);
        self.waiting.push_back(pending);
        if self.waiting.len() >= self.sweep_at {
            let is_wanted =
                |pending: &PendingClaim| !pending.caller.is_closed() || pending.inherits;
            self.waiting.retain(is_wanted);
            self.sweep_at = (self.waiting.len() * 2).max(1_024);
        }
    }
}

impl PendingClaim {
    /// Answers, and returns the leases if nobody listens any more.
    fn answer(
        self,
        outcome: Result<Vec<ClaimedItem>, StoreError>,
        releases: &Releases,
    ) -> Option<Vec<ClaimedItem>> {
        let grant = outcome.map(|items| UndeliveredLeases::new(items, releases.clone()));
        let unheard = self.caller.send(grant).err()?;
        unheard.ok().map(|grant| grant.deliver(usize::MAX))
    }
}
