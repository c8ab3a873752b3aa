//! The claim dispatcher of one queue: hands ready items to claims, first come, first served.
//!
//! One task serves all claims on the queue. Claims that arrive while a store operation runs share the next one. Claims
//! that find no item wait in this task, so that the broker polls the store once for all of them, however many wait.
//!
//! The task asks the store for waiting claims in two cases:
//! - An item has become ready through this broker (`Wakeups::items_ready`).
//! - The poll interval has passed. Only a poll finds the rows that other programs or brokers have made ready. The
//!   interval doubles with each poll that finds nothing, from `polling.min_interval` to `polling.max_interval`, and starts again when
//!   items are found.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rand::RngExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::error::Error;
use super::group_commit::broker_stopped;
use super::response_budget::ResponseBytes;
use super::statement_spans::StatementSpans;
use super::undelivered::{LeasedQueue, UndeliveredLeases};
use super::wakeups::Wakeups;
use crate::call_trace::{self, RecordedCall};
use crate::config::Polling;
use crate::lease_trace::ReleaseReason;
use crate::store::{ClaimCall, Claimed, ClaimedItem, Settlement, Store, StoreError, TooLargeItem};

/// The largest number of items that the claims of one store operation ask for.
const MAX_GROUP_ITEMS: usize = 1_000;
/// The largest number of claims in one store operation.
const MAX_GROUP_CALLS: usize = 256;
/// With fewer waiting claims than this, those whose callers are gone are not removed early.
const MIN_PRUNE_THRESHOLD: usize = 1_024;

/// A handle to the task that serves the claims on one queue.
pub(super) struct ClaimDispatcher {
    messages: mpsc::UnboundedSender<Message>,
    leased_queue: Arc<LeasedQueue>,
}

/// A message to the task.
enum Message {
    /// A claim to serve.
    Claim(PendingClaim),
    /// Answers the claims with these tokens without leases.
    Withdraw {
        tokens: HashSet<Uuid>,
        /// Is told when no store operation for these claims runs.
        done: oneshot::Sender<()>,
    },
}

/// A claim that has not been answered.
struct PendingClaim {
    call: ClaimCall,
    /// The time until which the claim waits for an item. `None`: it is answered after the first store operation, with
    /// or without items.
    wait_until: Option<Instant>,
    status: Arc<ClaimStatus>,
    /// True if an earlier call with the same request id was abandoned and its leases were kept for this one. The claim
    /// must then reach the store even if its own caller goes away, because no other claim would get those leases or
    /// release them.
    takes_over_leases: bool,
    /// The call, if it is recorded.
    recorded: Option<Arc<RecordedCall>>,
    caller: oneshot::Sender<Result<UndeliveredLeases, Error>>,
}

/// The part of a claim that its caller sees while the claim waits.
struct ClaimStatus {
    /// True while a store operation for this claim runs or is about to run. False while the claim only waits.
    in_flight: AtomicBool,
    /// The ready items that the last store operation passed over, because each is too large for this claim.
    too_large: Mutex<Vec<TooLargeItem>>,
}

impl ClaimStatus {
    fn set_too_large(&self, too_large: Vec<TooLargeItem>) {
        *self
            .too_large
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = too_large;
    }

    /// Returns the answer to the claim if it gets no lease.
    fn empty_answer(&self) -> Claimed {
        let mut last = self
            .too_large
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Claimed {
            too_large: std::mem::take(&mut *last),
            ..Claimed::default()
        }
    }
}

impl ClaimDispatcher {
    /// Starts the task. It ends when `draining` is cancelled, after it has answered every waiting claim with no leases.
    pub(super) fn spawn(
        tasks: &TaskTracker,
        store: Arc<dyn Store>,
        polling: Polling,
        wakeups: Arc<Wakeups>,
        leased_queue: Arc<LeasedQueue>,
        spans: StatementSpans,
        draining: CancellationToken,
    ) -> Self {
        let (messages, inbox) = mpsc::unbounded_channel();
        let task = DispatcherTask {
            store,
            polling,
            wakeups,
            leased_queue: leased_queue.clone(),
            spans,
            arrived: VecDeque::new(),
            waiting: VecDeque::new(),
            prune_threshold: 0,
            poll_interval: polling.min_interval,
            next_poll: Instant::now(),
        };
        tasks.spawn(task.run(inbox, draining));
        Self {
            messages,
            leased_queue,
        }
    }

    /// Answers the claims with these tokens, which have request ids, without leases. Returns when no store operation
    /// for them runs any more. Leases that they have got by then are in the store.
    pub(super) async fn withdraw(&self, tokens: Vec<Uuid>) {
        let (done, is_done) = oneshot::channel();
        let tokens = tokens.into_iter().collect();
        // If the task has ended, no claim is left.
        let _ = self.messages.send(Message::Withdraw { tokens, done });
        let _ = is_done.await;
    }

    /// Claims items, and waits up to `wait` until there is at least one. Returns no leases if there is none, or if the
    /// broker drains.
    ///
    /// If the returned future is dropped, the leases that it would have returned are released.
    pub(super) async fn claim(
        &self,
        call: ClaimCall,
        wait: Option<Duration>,
    ) -> Result<UndeliveredLeases, Error> {
        let (caller, mut answer) = oneshot::channel();
        let wait_until = wait.map(|wait| Instant::now() + wait);
        let status = Arc::new(ClaimStatus {
            in_flight: AtomicBool::new(true),
            too_large: Mutex::default(),
        });
        let claim = PendingClaim {
            call,
            wait_until,
            status: status.clone(),
            takes_over_leases: false,
            recorded: call_trace::recorded(),
            caller,
        };
        if self.messages.send(Message::Claim(claim)).is_err() {
            // The task has ended because the broker drains.
            return Ok(self.no_leases());
        }
        let Some(wait_until) = wait_until else {
            return answer
                .await
                .unwrap_or_else(|_| Err(broker_stopped().into()));
        };
        tokio::select! {
            answer = &mut answer => return answer.unwrap_or_else(|_| Err(broker_stopped().into())),
            () = tokio::time::sleep_until(wait_until) => {}
        }
        // The wait is over. If a store operation for this claim runs, its answer comes soon and may hold items, so the
        // claim stays. Otherwise the channel is closed, and only an answer that has been sent already is received.
        if !status.in_flight.load(Ordering::Acquire) {
            answer.close();
        }
        answer
            .await
            .unwrap_or_else(|_| Ok(self.empty(status.empty_answer())))
    }

    fn empty(&self, claimed: Claimed) -> UndeliveredLeases {
        UndeliveredLeases::new(claimed, None, Duration::ZERO, self.leased_queue.clone())
    }

    /// Returns the answer to a claim that gets no lease.
    pub(super) fn no_leases(&self) -> UndeliveredLeases {
        self.empty(Claimed::default())
    }
}

/// The state of the task behind [`ClaimDispatcher`].
struct DispatcherTask {
    store: Arc<dyn Store>,
    polling: Polling,
    wakeups: Arc<Wakeups>,
    leased_queue: Arc<LeasedQueue>,
    spans: StatementSpans,
    /// New claims, for which the store has not been asked yet.
    arrived: VecDeque<PendingClaim>,
    /// Claims that wait for an item, the longest waiting first. The last store operation left no item for them.
    waiting: VecDeque<PendingClaim>,
    /// The number of waiting claims at which those whose callers are gone are removed.
    prune_threshold: usize,
    /// The time between two polls, before jitter.
    poll_interval: Duration,
    next_poll: Instant,
}

impl DispatcherTask {
    /// Serves claims until `draining` is cancelled or the [`ClaimDispatcher`] is dropped.
    async fn run(
        mut self,
        mut inbox: mpsc::UnboundedReceiver<Message>,
        draining: CancellationToken,
    ) {
        loop {
            let none_waiting = self.waiting.is_empty();
            let mut woken = false;
            tokio::select! {
                message = inbox.recv() => match message {
                    Some(message) => self.receive(message),
                    None => return,
                },
                () = self.wakeups.items_ready.notified(), if !none_waiting => woken = true,
                () = tokio::time::sleep_until(self.next_poll), if !none_waiting => {
                    self.poll_interval = (self.poll_interval * 2).min(self.polling.max_interval);
                    woken = true;
                }
                () = draining.cancelled() => break,
            }
            while let Ok(message) = inbox.try_recv() {
                self.receive(message);
            }
            // If claims are already waiting, no item is ready. A new claim that accepts waiting joins them without a
            // store operation. A claim with a request id needs one, because its token may already hold leases.
            let can_wait =
                |claim: &PendingClaim| claim.wait_until.is_some() && !claim.call.has_request_id;
            if !woken && !none_waiting && self.arrived.iter().all(can_wait) {
                while let Some(claim) = self.arrived.pop_front() {
                    self.wait_or_answer_empty(claim);
                }
            } else {
                self.claim_from_store().await;
            }
        }
        // The broker drains. Waiting claims get no leases, and neither do claims that are sent before the inbox closes.
        for claim in self.waiting.drain(..).chain(self.arrived.drain(..)) {
            claim.answer(Ok(Claimed::default()), None, &self.leased_queue);
        }
        inbox.close();
        while let Some(message) = inbox.recv().await {
            if let Message::Claim(claim) = message {
                claim.answer(Ok(Claimed::default()), None, &self.leased_queue);
            }
        }
    }

    /// Takes a message. A claim waits in `arrived` for the next store operation.
    fn receive(&mut self, message: Message) {
        let (tokens, done) = match message {
            Message::Claim(claim) => return self.arrived.push_back(claim),
            Message::Withdraw { tokens, done } => (tokens, done),
        };
        let is_withdrawn =
            |claim: &PendingClaim| claim.call.has_request_id && tokens.contains(&claim.call.token);
        for claims in [&mut self.arrived, &mut self.waiting] {
            if claims.iter().any(is_withdrawn) {
                let (withdrawn, others): (Vec<_>, Vec<_>) =
                    std::mem::take(claims).into_iter().partition(is_withdrawn);
                *claims = others.into();
                for claim in withdrawn {
                    claim.answer(Ok(Claimed::default()), None, &self.leased_queue);
                }
            }
        }
        // No store operation runs now, because the task waits for each before it receives messages.
        let _ = done.send(());
    }

    /// Claims items from the store, one call group after the other, until no item is ready or every claim is answered.
    async fn claim_from_store(&mut self) {
        let mut none_ready = false;
        // Claims for which every ready item is too large. Other claims may have room for these items.
        let mut only_too_large = Vec::new();
        loop {
            let group = self.next_group(none_ready);
            if group.is_empty() {
                break;
            }
            let calls: Arc<[ClaimCall]> = group.iter().map(|claim| claim.call.clone()).collect();
            let wanted = calls
                .iter()
                .fold(0, |sum: usize, call| sum.saturating_add(call.max_bytes));
            let Some(mut reserved) = self.leased_queue.budget.reserve(wanted).await else {
                self.refuse_overload(group);
                break;
            };
            let start = SystemTime::now();
            let queue = self.leased_queue.index;
            let claim = self.store.claim(queue, calls, reserved.bytes());
            let outcome = claim.await;
            let items = outcome.iter().flatten().map(|claimed| claimed.items.len());
            let recorded = group.iter().map(|claim| claim.recorded.clone());
            self.spans.report(recorded, items.sum(), start, &outcome);
            let results = match outcome {
                Ok(results) if results.len() == group.len() => results,
                Ok(results) => {
                    let (results, calls) = (results.len(), group.len());
                    let problem =
                        format!("the store returned {results} results for {calls} claims");
                    self.fail_all(group, &StoreError::Bug(problem));
                    break;
                }
                Err(error) => {
                    self.fail_all(group, &error);
                    break;
                }
            };
            // Claims that the store has not looked at all ready items for. The next operation serves them.
            let mut unserved = Vec::new();
            let mut without_items = Vec::new();
            let (mut answered_tokens, mut abandoned) = (Vec::new(), Vec::new());
            for (claim, claimed) in group.into_iter().zip(results) {
                // A claim with a request id can get the few leases that its token holds while other items are ready.
                none_ready |= claimed.items.len() < claim.call.max_items
                    && !claimed.has_more
                    && claimed.too_large.is_empty()
                    && !claim.call.has_request_id;
                if !claimed.too_large.is_empty() && claimed.items.is_empty() {
                    claim.status.set_too_large(claimed.too_large);
                    only_too_large.push(claim);
                } else if claimed.items.is_empty() && claimed.has_more {
                    unserved.push(claim);
                } else if claimed.items.is_empty() {
                    none_ready = true;
                    without_items.push(claim);
                } else {
                    self.poll_interval = self.polling.min_interval;
                    self.wakeups.reaper_timer.advance_to(claim.call.duration);
                    let token = claim.call.has_request_id.then_some(claim.call.token);
                    let duration = claim.call.duration;
                    let counted = reserved.split(claimed.bytes);
                    match claim.answer(Ok(claimed), counted, &self.leased_queue) {
                        None => answered_tokens.extend(token),
                        Some(items) => abandoned.push((token, duration, items)),
                    }
                }
            }
            for claim in unserved.into_iter().rev() {
                self.arrived.push_front(claim);
            }
            for (token, duration, items) in abandoned {
                let gone = ReleaseReason::CallerGone;
                let releases = self.leased_queue.releases_of(items, duration, gone);
                self.release_abandoned(token, releases, &answered_tokens)
                    .await;
            }
            // Claims without items go before those that are still waiting, because they have waited longer.
            let waited_less = std::mem::take(&mut self.waiting);
            for claim in without_items {
                self.wait_or_answer_empty(claim);
            }
            self.waiting.extend(waited_less);
        }
        for claim in only_too_large {
            self.wait_or_answer_empty(claim);
        }
        // Jitter keeps brokers on the same table from polling at the same moments.
        let jitter = rand::rng().random_range(0.75..1.25);
        self.next_poll = Instant::now() + self.poll_interval.mul_f64(jitter);
    }

    /// Answers every claim with the store's error: those of the failed group and all others. If the store were asked
    /// for one group after the other, the last claim would wait for as many timeouts as there are groups.
    fn fail_all(&mut self, group: Vec<PendingClaim>, error: &StoreError) {
        let others = self.waiting.drain(..).chain(self.arrived.drain(..));
        for claim in group.into_iter().chain(others) {
            claim.answer(Err(error.clone().into()), None, &self.leased_queue);
        }
    }

    /// Refuses every claim that does not wait, because no bytes are free for a response. Waiting claims wait on.
    fn refuse_overload(&mut self, group: Vec<PendingClaim>) {
        let arrived = std::mem::take(&mut self.arrived);
        for claim in group.into_iter().chain(arrived) {
            if claim.wait_until.is_some() {
                self.wait_or_answer_empty(claim);
            } else {
                claim.answer(Err(Error::Overloaded), None, &self.leased_queue);
            }
        }
    }

    /// Releases the leases of a claim whose caller is gone. `token` is set if the claim has a request id.
    ///
    /// A call with a request id may have been sent again, and the store gives both calls the same leases. The leases
    /// are therefore kept in two cases:
    /// - A call with the same token got them from the same store operation (`answered_tokens`).
    /// - A call with the same token has arrived. It finds them when its turn comes.
    ///
    /// Otherwise this function waits until they are released, so that a call that arrives later cannot find leases that
    /// are about to be released.
    async fn release_abandoned(
        &mut self,
        token: Option<Uuid>,
        releases: Vec<Settlement>,
        answered_tokens: &[Uuid],
    ) {
        let settlements = &self.leased_queue.settlements;
        let Some(token) = token else {
            settlements.submit_detached(releases);
            return;
        };
        if answered_tokens.contains(&token) {
            return;
        }
        let mut arrived = self.arrived.iter_mut();
        match arrived.find(|claim| claim.call.token == token && !claim.caller.is_closed()) {
            Some(retry) => retry.takes_over_leases = true,
            None => {
                // If the release fails, the leases expire.
                let _ = settlements.submit(releases).await;
            }
        }
    }

    /// Takes the claims that the next store operation serves: first those that wait, then those that have arrived.
    ///
    /// If no item is ready, only arrived claims with a request id need a store operation, because they may already hold
    /// leases. The other arrived claims wait or are answered without items.
    fn next_group(&mut self, none_ready: bool) -> Vec<PendingClaim> {
        let mut group: Vec<PendingClaim> = Vec::new();
        let mut item_count = 0;
        while item_count < MAX_GROUP_ITEMS && group.len() < MAX_GROUP_CALLS {
            let next = if none_ready {
                self.arrived.pop_front()
            } else {
                let longest_waiting = self.waiting.pop_front();
                longest_waiting.or_else(|| self.arrived.pop_front())
            };
            let Some(claim) = next else { break };
            if !claim.is_wanted() {
                continue;
            }
            if none_ready && !claim.call.has_request_id {
                self.wait_or_answer_empty(claim);
                continue;
            }
            if !group.is_empty() && item_count + claim.call.max_items > MAX_GROUP_ITEMS {
                // No room: the claim goes back to where it came from. Only claims that have arrived are in flight here.
                if claim.status.in_flight.load(Ordering::Relaxed) {
                    self.arrived.push_front(claim);
                } else {
                    self.waiting.push_front(claim);
                }
                break;
            }
            claim.status.in_flight.store(true, Ordering::Release);
            item_count += claim.call.max_items;
            group.push(claim);
        }
        group
    }

    /// Lets a claim wait that found no item, or answers it without items if it does not wait any longer.
    fn wait_or_answer_empty(&mut self, claim: PendingClaim) {
        if claim.wait_until.is_none_or(|until| until <= Instant::now()) {
            let empty = claim.status.empty_answer();
            claim.answer(Ok(empty), None, &self.leased_queue);
            return;
        }
        claim.status.in_flight.store(false, Ordering::Release);
        self.waiting.push_back(claim);
        // Claims whose callers are gone would pile up while no item is ready. The threshold is twice the number of
        // those that stay, so that the work per claim stays constant.
        if self.waiting.len() >= self.prune_threshold {
            self.waiting.retain(PendingClaim::is_wanted);
            self.prune_threshold = (self.waiting.len() * 2).max(MIN_PRUNE_THRESHOLD);
        }
    }
}

impl PendingClaim {
    /// Returns whether the claim still needs the store: its caller waits, or leases were kept for it.
    fn is_wanted(&self) -> bool {
        !self.caller.is_closed() || self.takes_over_leases
    }

    /// Answers the claim. If its caller is gone, returns the leases, which the caller did not get.
    fn answer(
        self,
        outcome: Result<Claimed, Error>,
        counted: Option<ResponseBytes>,
        leased_queue: &Arc<LeasedQueue>,
    ) -> Option<Vec<ClaimedItem>> {
        let duration = self.call.duration;
        let outcome = outcome.map(|claimed| {
            UndeliveredLeases::new(claimed, counted, duration, leased_queue.clone())
        });
        let undelivered = self.caller.send(outcome).err()?;
        undelivered.ok().map(UndeliveredLeases::into_items)
    }
}
