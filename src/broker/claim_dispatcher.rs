//! The claim dispatcher of one queue: hands ready items to claims, whose callers take turns.
//!
//! One task serves all claims on the queue. Claims that arrive while a store operation runs share the next one (`series.rs`). Claims
//! that find no item wait in this task, so that the broker polls the store once for all of them, however many wait.
//!
//! The task asks the store for waiting claims in two cases:
//! - An item has become ready through this broker (`Wakeups::items_ready`).
//! - The poll interval has passed. Only a poll finds the rows that other programs or brokers have made ready. The
//!   interval doubles with each poll that finds nothing, from `polling.min_interval` to `polling.max_interval`, and starts again when
//!   items are found.

mod pending_claim;
mod series;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lease_broker_store::{ClaimCall, Leases, TooLargeItem};
use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::pending_claim::{ClaimStatus, PendingClaim, PlaceHolder};
use super::admission::{Arrivals, ClaimPlace, FairQueue, Shedding, Turn};
use super::call_context::CallContext;
use super::error::Error;
use super::group_commit::broker_stopped;
use super::held_back::{HeldBack, LastReason};
use super::statement_spans::StatementSpans;
use super::undelivered::{LeasedQueue, UndeliveredLeases};
use super::wakeups::Wakeups;
use crate::config::Polling;

/// The largest number of claims in one store operation.
const MAX_GROUP_CALLS: usize = 256;
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
            operations: 0,
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
            after: 0,
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
    /// The number of store operations that have started.
    operations: u64,
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
            // A series that failed leaves claims that it has not served.
            let mut woken = !self.arrived.is_empty();
            // In this order, so that a flood of claims keeps the task neither from draining nor from looking for items.
            tokio::select! {
                biased;
                () = draining.cancelled() => break,
                () = std::future::ready(()), if woken => {}
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
            Message::Claim(mut claim) => {
                claim.after = self.operations;
                return self.arrived.push(claim);
            }
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
        // No store operation runs now, because this message waits for their end.
        let _ = done.send(());
    }

    /// Lets a claim wait that found no item, or answers it without items if it does not wait any longer.
    fn wait_or_answer_empty(&mut self, mut claim: PendingClaim) {
        if claim.is_over() {
            claim.answer_empty(self.last_reason.get(), &self.leased_queue);
            return;
        }
        let budgets = &self.leased_queue.budgets;
        if !claim.status.place.start_waiting(budgets) {
            let refused = Err(budgets.refuse("waiting_claims"));
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
