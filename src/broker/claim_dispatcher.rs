//! The claim dispatcher of one queue: hands ready items to claims, whose callers take turns.
//!
//! One task serves all claims on the queue. Claims that arrive while a store operation runs share the next one. Claims
//! that find no item wait in this task, so that the broker polls the store once for all of them, however many wait.
//!
//! The task asks the store for waiting claims in two cases:
//! - An item has become ready through this broker (`Wakeups::items_ready`).
//! - The poll interval has passed. Only a poll finds the rows that other programs or brokers have made ready. The
//!   interval doubles with each poll that finds nothing, from `polling.min_interval` to `polling.max_interval`, and starts again when
//!   items are found.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use lease_broker_model::call_source::{CallSource, SourceNumber};
use lease_broker_store::{
    Beginning, ClaimCall, Claimed, Leases, Limited, Problem, ProblemKind, Rejection, StoreError,
    TooLargeItem,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::admission::{Arrival, Arrivals, ClaimPlace, FairQueue, Held, InTurn, Shedding, Turn};
use super::call_context::CallContext;
use super::error::Error;
use super::group_commit::{MAX_GROUP_ITEMS, broker_stopped};
use super::held_back::{HeldBack, LastReason};
use super::statement_spans::StatementSpans;
use super::undelivered::{LeasedQueue, UndeliveredLeases};
use super::wakeups::Wakeups;
use crate::call_trace::RecordedCall;
use crate::config::Polling;

/// The largest number of bytes that one store operation reads. They are in memory together, beside the encoded responses.
const MAX_GROUP_BYTES: usize = 32 << 20;
/// The largest response whose bytes are not counted here.
const UNCOUNTED_BYTES: usize = 16 << 10;
/// The largest number of claims in one store operation.
const MAX_GROUP_CALLS: usize = 256;
/// The time after which a walk over groups without success ends, although it has not looked at all groups.
const LONGEST_WALK: Duration = Duration::from_millis(200);
/// The pause after a walk without success, as a multiple of its duration.
const WALK_PAUSE: u32 = 40;
/// With fewer waiting claims than this, those whose callers are gone are not removed early.
const MIN_PRUNE_THRESHOLD: usize = 1_024;

/// A handle to the task that serves the claims on one queue.
pub(super) struct ClaimDispatcher {
    messages: mpsc::UnboundedSender<Message>,
    arrivals: Arrivals,
    leased_queue: Arc<LeasedQueue>,
    /// Why the last store operation left claims without items.
    last_reason: Arc<LastReason>,
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
    arrival: Arrival,
    source: Option<Arc<CallSource>>,
    /// The turn in the queue from which the claim was taken last.
    turn: Turn,
    /// Whether the claim has waited for an item.
    has_waited: bool,
    status: Arc<ClaimStatus>,
    /// The call, if it is recorded.
    recorded: Option<Arc<RecordedCall>>,
    beginning: Beginning,
    caller: oneshot::Sender<Result<UndeliveredLeases, Error>>,
}

/// The part of a claim that its caller sees while the claim waits.
struct ClaimStatus {
    /// True while a store operation for this claim runs or is about to run. False while the claim only waits.
    in_flight: AtomicBool,
    /// The ready items that the last store operation passed over, because each is too large for this claim.
    too_large: Mutex<Vec<TooLargeItem>>,
    /// Whether the last store operation has kept items from this claim because of a suspect.
    is_behind_suspects: AtomicBool,
    place: ClaimPlace,
}

impl ClaimStatus {
    fn set_too_large(&self, too_large: Vec<TooLargeItem>) {
        *self
            .too_large
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = too_large;
    }

    /// Notes the result of a store operation.
    fn note(&self, claimed: &Claimed) {
        let is_behind = claimed.limited == Some(Limited::Suspects);
        self.is_behind_suspects.store(is_behind, Ordering::Relaxed);
    }

    /// Returns the reason of this claim, if the last store operation left claims without items for `last`.
    fn reason(&self, last: (HeldBack, Option<Duration>)) -> (HeldBack, Option<Duration>) {
        match last.0 {
            HeldBack::NothingReady if self.is_behind_suspects.load(Ordering::Relaxed) => {
                (HeldBack::Suspects, None)
            }
            _ => last,
        }
    }

    fn take_too_large(&self) -> Vec<TooLargeItem> {
        let last = self.too_large.lock();
        std::mem::take(&mut *last.unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the place of a claim when the claim is answered or its caller goes away. A claim whose caller is gone can stay
/// with the dispatcher for long.
struct PlaceHolder(Arc<ClaimStatus>);

impl Drop for PlaceHolder {
    fn drop(&mut self) {
        self.0.place.give_back();
    }
}

impl ClaimDispatcher {
    /// Starts the task. `seed`: of the jitter between polls. It ends when `draining` is cancelled, after it has answered every waiting claim with no leases.
    pub(super) fn spawn(
        tasks: &TaskTracker,
        store: Arc<dyn Leases>,
        (polling, seed): (Polling, u64),
        wakeups: Arc<Wakeups>,
        leased_queue: Arc<LeasedQueue>,
        spans: StatementSpans,
        draining: CancellationToken,
    ) -> Self {
        let (messages, inbox) = mpsc::unbounded_channel();
        let arrivals = Arrivals::default();
        let task = DispatcherTask {
            store,
            polling,
            wakeups,
            leased_queue: leased_queue.clone(),
            spans,
            arrived: FairQueue::default(),
            waiting: FairQueue::default(),
            without_share: Vec::new(),
            is_held_back: false,
            prune_threshold: 0,
            poll_interval: polling.min_interval,
            next_poll: Instant::now(),
            max_group_calls: MAX_GROUP_CALLS,
            random: StdRng::seed_from_u64(seed),
            shedding: Shedding::new(arrivals.clone(), leased_queue.budgets.clone()),
            last_reason: Arc::default(),
        };
        let last_reason = task.last_reason.clone();
        tasks.spawn(task.run(inbox, draining));
        Self {
            messages,
            arrivals,
            leased_queue,
            last_reason,
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
        context: &CallContext,
        call: ClaimCall,
        wait: Option<Duration>,
        place: ClaimPlace,
    ) -> Result<UndeliveredLeases, Error> {
        let (caller, mut answer) = oneshot::channel();
        let wait_until = wait.map(|wait| Instant::now() + wait);
        let status = Arc::new(ClaimStatus {
            in_flight: AtomicBool::new(true),
            too_large: Mutex::default(),
            is_behind_suspects: AtomicBool::new(false),
            place,
        });
        let _place = PlaceHolder(status.clone());
        let claim = PendingClaim {
            call,
            wait_until,
            arrival: self.arrivals.next(),
            source: context.source.clone(),
            turn: Turn::default(),
            has_waited: false,
            status: status.clone(),
            recorded: context.recorded.clone(),
            beginning: context.beginning.clone(),
            caller,
        };
        if self.messages.send(Message::Claim(claim)).is_err() {
            // The task has ended because the broker drains.
            return Ok(self.empty(Vec::new(), (HeldBack::Stopping, None)));
        }
        let Some(wait_until) = wait_until else {
            return answer
                .await
                .unwrap_or_else(|_| Err(broker_stopped().into()));
        };
        tokio::select! {
            biased;
            answer = &mut answer => return answer.unwrap_or_else(|_| Err(broker_stopped().into())),
            () = tokio::time::sleep_until(wait_until) => {}
        }
        // The wait is over. If a store operation for this claim runs, its answer comes soon and may hold items, so the
        // claim stays. Otherwise the channel is closed, and only an answer that has been sent already is received.
        if !status.in_flight.load(Ordering::Acquire) {
            answer.close();
        }
        answer.await.unwrap_or_else(|_| {
            Ok(self.empty(
                status.take_too_large(),
                status.reason(self.last_reason.get()),
            ))
        })
    }

    /// Returns the answer to a claim that gets no lease.
    fn empty(
        &self,
        too_large: Vec<TooLargeItem>,
        reason: (HeldBack, Option<Duration>),
    ) -> UndeliveredLeases {
        UndeliveredLeases::none(too_large, reason, self.leased_queue.clone())
    }
}

/// The state of the task behind [`ClaimDispatcher`].
struct DispatcherTask {
    store: Arc<dyn Leases>,
    polling: Polling,
    wakeups: Arc<Wakeups>,
    leased_queue: Arc<LeasedQueue>,
    spans: StatementSpans,
    /// New claims, for which the store has not been asked yet.
    arrived: FairQueue<PendingClaim>,
    /// Claims that wait for an item. The last store operation left no item for them.
    waiting: FairQueue<PendingClaim>,
    /// Claims that got nothing although items are ready: each item is too large, or is kept from them because of a suspect. Other
    /// claims may get these items.
    without_share: Vec<PendingClaim>,
    /// Whether the last store operation has kept ready items from a claim, because of a suspect or because they are too large. Another
    /// claim may get them.
    is_held_back: bool,
    /// The number of waiting claims at which those whose callers are gone are removed.
    prune_threshold: usize,
    /// The time between two polls, before jitter.
    poll_interval: Duration,
    next_poll: Instant,
    /// The maximum number of claims in one store operation.
    max_group_calls: usize,
    /// The source of the jitter.
    random: StdRng,
    shedding: Shedding,
    /// Why the last store operation left claims without items.
    last_reason: Arc<LastReason>,
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
            // In this order, so that a flood of claims keeps the task neither from draining nor from looking for items.
            tokio::select! {
                biased;
                () = draining.cancelled() => break,
                () = self.wakeups.items_ready.notified(), if !none_waiting => {
                    woken = true;
                    if self.leased_queue.takes_turns {
                        // Leases end here, so they probably end at other brokers too, which can free items.
                        self.poll_interval = self.polling.min_interval;
                    }
                }
                () = tokio::time::sleep_until(self.next_poll), if !none_waiting => {
                    self.poll_interval = (self.poll_interval * 2).min(self.polling.max_interval);
                    woken = true;
                }
                message = inbox.recv() => match message {
                    Some(message) => self.receive(message),
                    None => return,
                },
            }
            while let Ok(message) = inbox.try_recv() {
                self.receive(message);
            }
            // If claims are already waiting, no item was ready for them. A new claim that waits for the next poll joins them without a
            // store operation. A claim with a request id needs one, because its token may already hold leases.
            let next_poll = self.next_poll;
            let next_poll = next_poll.min(Instant::now() + self.polling.max_interval);
            let can_wait = |claim: &PendingClaim| {
                let waits = claim.wait_until.is_some_and(|until| until > next_poll);
                waits && !claim.call.has_request_id
            };
            let can_join = !none_waiting && !self.is_held_back;
            if !woken && can_join && self.arrived.iter().all(can_wait) {
                while let Some((_, claim)) = self.arrived.pop() {
                    self.wait_or_answer_empty(claim);
                }
            } else {
                self.claim_from_store(&mut inbox, &draining).await;
            }
        }
        // The broker drains. Waiting claims get no leases, and neither do claims that are sent before the inbox closes.
        for claim in self.waiting.take_all().chain(self.arrived.take_all()) {
            claim.answer_empty((HeldBack::Stopping, None), &self.leased_queue);
        }
        inbox.close();
        while let Some(message) = inbox.recv().await {
            if let Message::Claim(claim) = message {
                claim.answer_empty((HeldBack::Stopping, None), &self.leased_queue);
            }
        }
    }

    /// Takes a message. A claim waits in `arrived` for the next store operation.
    fn receive(&mut self, message: Message) {
        let (tokens, done) = match message {
            Message::Claim(claim) => return self.arrived.push(claim),
            Message::Withdraw { tokens, done } => (tokens, done),
        };
        let is_withdrawn =
            |claim: &PendingClaim| claim.call.has_request_id && tokens.contains(&claim.call.token);
        let too_large = self
            .without_share
            .extract_if(.., |claim| is_withdrawn(claim));
        let mut withdrawn: Vec<_> = too_large.collect();
        for claims in [&mut self.arrived, &mut self.waiting] {
            withdrawn.extend(claims.remove(is_withdrawn));
        }
        for claim in withdrawn {
            claim.answer_empty((HeldBack::Released, None), &self.leased_queue);
        }
        // No store operation runs now, because the task waits for each before it receives messages.
        let _ = done.send(());
    }

    /// Claims items from the store, one call group after the other, until no item is ready or every claim is answered.
    async fn claim_from_store(
        &mut self,
        inbox: &mut mpsc::UnboundedReceiver<Message>,
        draining: &CancellationToken,
    ) {
        let mut none_ready = false;
        self.is_held_back = false;
        let start_of_walk = Instant::now();
        let mut token_wait = None;
        while !draining.is_cancelled() {
            // Claims that arrive meanwhile have their turn among those that are left. Once no item is ready, they wait for
            // the end of this loop.
            while !none_ready && let Ok(message) = inbox.try_recv() {
                self.receive(message);
            }
            let group = self.next_group(none_ready);
            if group.is_empty() {
                break;
            }
            let calls: Arc<[ClaimCall]> = group.iter().map(|claim| claim.call.clone()).collect();
            let Some(mut reserved) = self.reserve_bytes(&calls).await else {
                self.refuse_overload(group);
                break;
            };
            self.shedding.operation_starts(self.arrived.is_empty());
            let start = SystemTime::now();
            let queue = self.leased_queue.index;
            let claim = self.store.claim(queue, calls, reserved.amount());
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
                Err(StoreError::Rejected(rejection)) => {
                    self.reject(group, rejection);
                    continue;
                }
                Err(error) => {
                    self.fail_all(group, &error);
                    break;
                }
            };
            self.max_group_calls = (self.max_group_calls * 2).min(MAX_GROUP_CALLS);
            // Claims that the store has not looked at all ready items for. The next operation serves them.
            let mut unserved = Vec::new();
            let mut without_items = Vec::new();
            token_wait = self.last_reason.note(&results);
            self.report_dead(&results);
            // A walk over groups that was cut goes on, unless it has taken long.
            let has_walked_enough = start_of_walk.elapsed() > LONGEST_WALK;
            for (claim, claimed) in group.into_iter().zip(results) {
                none_ready |= self.shows_none_ready(&claim.call, &claimed);
                self.is_held_back |= claimed.is_held_back || !claimed.too_large.is_empty();
                claim.status.note(&claimed);
                if !claimed.too_large.is_empty() && claimed.items.is_empty() {
                    claim.status.set_too_large(claimed.too_large);
                    self.without_share.push(claim);
                } else if claimed.items.is_empty()
                    && claimed.has_more
                    && !(has_walked_enough && claimed.limited.is_some())
                {
                    unserved.push(claim);
                } else if claimed.items.is_empty() && claimed.is_held_back {
                    self.without_share.push(claim);
                } else if claimed.items.is_empty() {
                    none_ready = true;
                    without_items.push(claim);
                } else {
                    self.poll_interval = self.polling.min_interval;
                    self.wakeups.reaper_timer.advance_to(claim.call.duration);
                    // There can be many small responses, and each part of the budget costs time.
                    let is_counted = claimed.bytes > UNCOUNTED_BYTES;
                    let counted =
                        is_counted.then(|| reserved.split(claimed.bytes, claim.source.clone()));
                    claim.answer(Ok(claimed), counted, &self.leased_queue);
                }
            }
            // Claims that have waited come first in each list.
            for claim in unserved {
                self.put_back(claim);
            }
            for claim in without_items {
                self.wait_or_answer_empty(claim);
            }
        }
        for claim in std::mem::take(&mut self.without_share) {
            self.wait_or_answer_empty(claim);
        }
        // Jitter keeps brokers on the same table from polling at the same moments.
        let jitter = self.random.random_range(0.75..1.25);
        let mut pause = self.poll_interval.mul_f64(jitter);
        if let Some(wait) = token_wait {
            // Then a rate allows an item.
            pause = pause.min(wait);
        } else if self.last_reason.get().0 == HeldBack::GroupsBusy {
            // Polls of a queue with many blocked groups take a small part of the database's time.
            pause = pause.max(start_of_walk.elapsed() * WALK_PAUSE);
        }
        self.next_poll = Instant::now() + pause;
    }

    /// Returns whether no item is ready for other claims either.
    ///
    /// A claim with a request id can get the few leases that its token holds while other items are ready. The groups of leased items can
    /// hold others back, which the next operation finds.
    fn shows_none_ready(&self, call: &ClaimCall, claimed: &Claimed) -> bool {
        let leaves_groups = self.leased_queue.takes_turns && !claimed.items.is_empty();
        claimed.items.len() < call.max_items
            && !claimed.has_more
            && claimed.too_large.is_empty()
            && !claimed.is_held_back
            && !leaves_groups
            && !call.has_request_id
    }

    /// Logs that claims have made items dead.
    fn report_dead(&self, results: &[Claimed]) {
        let items: usize = results.iter().map(|claimed| claimed.made_dead).sum();
        if items > 0 {
            tracing::warn!(
                queue = self.leased_queue.name,
                items,
                "items made dead: no claim can lease them; each has the reason as its error"
            );
        }
    }

    /// Reserves the bytes of the items that a store operation reads. `None`: too few are free.
    async fn reserve_bytes(&self, calls: &[ClaimCall]) -> Option<Held> {
        let wanted = calls
            .iter()
            .fold(0, |sum: usize, call| sum.saturating_add(call.max_bytes));
        let budget = &self.leased_queue.budgets.response_bytes;
        budget.reserve(wanted.min(MAX_GROUP_BYTES)).await
    }

    /// Answers every claim with the store's error: those of the failed group and all others. If the store were asked
    /// for one group after the other, the last claim would wait for as many timeouts as there are groups.
    fn fail_all(&mut self, group: Vec<PendingClaim>, error: &StoreError) {
        let others = self.waiting.take_all().chain(self.arrived.take_all());
        for claim in group.into_iter().chain(others) {
            claim.answer(Err(error.clone().into()), None, &self.leased_queue);
        }
    }

    /// Answers the claim that the store has rejected, and lets the next operation serve the others of its group. A claim that rows
    /// refuse waits as if none were ready.
    ///
    /// If the store does not know which claim it was, the next groups are half as large, until one claim is alone.
    fn reject(&mut self, mut group: Vec<PendingClaim>, rejection: Rejection) {
        let alone = group.len() == 1;
        let rejected = rejection.item.filter(|index| *index < group.len());
        if let Some(index) = rejected.or(alone.then_some(0)) {
            let claim = group.remove(index);
            let Problem { text, kind, .. } = rejection.problem;
            let is_of_worker = self.leased_queue.writes_worker_ids
                || matches!(kind, ProblemKind::InvalidField | ProblemKind::ValueUnfit);
            if is_of_worker {
                let error = Error::invalid("worker_id", text);
                claim.answer(Err(error), None, &self.leased_queue);
            } else if claim.wait_until.is_some() {
                self.without_share.push(claim);
            } else {
                let error = Error::StoreMisconfigured(text);
                claim.answer(Err(error), None, &self.leased_queue);
            }
        } else {
            self.max_group_calls = (group.len() / 2).max(1);
        }
        for claim in group {
            self.put_back(claim);
        }
    }

    /// Puts a claim back that the store has not served.
    fn put_back(&mut self, claim: PendingClaim) {
        if claim.has_waited {
            claim.status.in_flight.store(false, Ordering::Release);
            self.waiting.put_back(claim.turn, claim);
        } else {
            self.arrived.put_back(claim.turn, claim);
        }
    }

    /// Refuses every claim that does not wait, because no bytes are free for a response. Waiting claims wait on.
    fn refuse_overload(&mut self, group: Vec<PendingClaim>) {
        let arrived = self.arrived.take_all();
        for claim in group.into_iter().chain(arrived) {
            if claim.wait_until.is_some() {
                self.wait_or_answer_empty(claim);
            } else {
                let overload = &self.leased_queue.budgets.overload;
                let refused = Err(overload.refuse("response_bytes"));
                claim.answer(refused, None, &self.leased_queue);
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
        let too_late = self.shedding.too_late();
        while item_count < MAX_GROUP_ITEMS && group.len() < self.max_group_calls {
            let waiting = if none_ready { None } else { self.waiting.pop() };
            let next = waiting.or_else(|| self.arrived.pop());
            let Some((turn, mut claim)) = next else { break };
            claim.turn = turn;
            if !claim.is_wanted() || !claim.beginning.begin() {
                continue;
            }
            if none_ready && !claim.call.has_request_id {
                self.wait_or_answer_empty(claim);
                continue;
            }
            // A claim that can wait is not refused.
            if claim.wait_until.is_none() && claim.arrival.is_too_late(too_late) {
                let refused = Err(self.shedding.refuse());
                claim.answer(refused, None, &self.leased_queue);
                continue;
            }
            if !group.is_empty() && item_count + claim.call.max_items > MAX_GROUP_ITEMS {
                self.put_back(claim);
                break;
            }
            claim.status.in_flight.store(true, Ordering::Release);
            item_count += claim.call.max_items;
            group.push(claim);
        }
        group
    }

    /// Lets a claim wait that found no item, or answers it without items if it does not wait any longer.
    fn wait_or_answer_empty(&mut self, mut claim: PendingClaim) {
        if claim.wait_until.is_none_or(|until| until <= Instant::now()) {
            claim.answer_empty(self.last_reason.get(), &self.leased_queue);
            return;
        }
        let budgets = &self.leased_queue.budgets;
        if !claim.status.place.start_waiting(budgets) {
            let refused = Err(budgets.overload.refuse("waiting_claims"));
            claim.answer(refused, None, &self.leased_queue);
            return;
        }
        claim.status.in_flight.store(false, Ordering::Release);
        if claim.has_waited {
            self.waiting.put_back(claim.turn, claim);
        } else {
            claim.has_waited = true;
            self.waiting.push(claim);
        }
        // Claims whose callers are gone would pile up while no item is ready. The threshold is twice the number of
        // those that stay, so that the work per claim stays constant.
        if self.waiting.len() >= self.prune_threshold {
            self.waiting.remove(|claim| !claim.is_wanted());
            self.prune_threshold = (self.waiting.len() * 2).max(MIN_PRUNE_THRESHOLD);
        }
    }
}

impl InTurn for PendingClaim {
    fn source(&self) -> SourceNumber {
        let source = self.source.as_ref();
        source.map_or(SourceNumber::default(), |source| source.number())
    }

    fn items(&self) -> usize {
        self.call.max_items
    }
}

impl PendingClaim {
    /// Returns whether the caller still waits.
    fn is_wanted(&self) -> bool {
        !self.caller.is_closed()
    }

    /// Answers the claim without leases.
    fn answer_empty(self, reason: (HeldBack, Option<Duration>), leased_queue: &Arc<LeasedQueue>) {
        let too_large = self.status.take_too_large();
        let reason = self.status.reason(reason);
        let empty = UndeliveredLeases::none(too_large, reason, leased_queue.clone());
        let _ = self.caller.send(Ok(empty));
    }

    /// Answers the claim. If its caller is gone, the leases are dropped (see [`UndeliveredLeases`]).
    fn answer(
        self,
        outcome: Result<Claimed, Error>,
        counted: Option<Held>,
        leased_queue: &Arc<LeasedQueue>,
    ) {
        let outcome = outcome.map(|claimed| {
            UndeliveredLeases::new(claimed, counted, &self.call, leased_queue.clone())
        });
        let _ = self.caller.send(outcome);
    }
}
