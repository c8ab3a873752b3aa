//! A series of store operations: claims items until no item is ready or every claim is answered.
//!
//! One operation runs after the other. On a store that is pipelined, claims that arrive while a small one runs start the next one
//! beside it (`overlap.rs`). Their results are noted in the order in which the operations started.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt as _, StreamExt as _};
use lease_broker_store::{
    ClaimCall, Claimed, Concurrency, Problem, ProblemKind, Rejection, StoreError,
};
use rand::RngExt as _;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pending_claim::PendingClaim;
use super::{DispatcherTask, MAX_GROUP_CALLS, Message};
use crate::broker::admission::{Held, InTurn as _};
use crate::broker::error::Error;
use crate::broker::group_commit::MAX_GROUP_ITEMS;
use crate::broker::held_back::HeldBack;
use crate::broker::overlap::Overlap;

/// The largest number of bytes that one store operation reads. They are in memory together, beside the encoded responses.
const MAX_GROUP_BYTES: usize = 32 << 20;
/// The largest response whose bytes are not counted here.
const UNCOUNTED_BYTES: usize = 16 << 10;
/// The time after which a walk over groups without success ends, although it has not looked at all groups.
const LONGEST_WALK: Duration = Duration::from_millis(200);
/// The pause after a walk without success, as a multiple of its duration.
const WALK_PAUSE: u32 = 40;

/// The state of a series.
struct Series {
    running: FuturesOrdered<BoxFuture<'static, Ended>>,
    overlap: Overlap,
    /// The time of the operations since one found items: that of a walk over groups whose items no claim may have.
    walked: Duration,
    /// The number of the last operation that left no item ready. It speaks for the claims that arrived before it started.
    none_ready: Option<u64>,
    /// When the claims without a share are asked for again.
    share_check: Instant,
    /// No further operation starts.
    is_over: bool,
    /// The time until a rate allows an item, if that keeps claims from items.
    token_wait: Option<Duration>,
    /// A message to answer when no operation runs. Later messages wait behind it.
    withdrawal: Option<Message>,
}

/// An operation that has ended.
struct Ended {
    number: u64,
    group: Vec<PendingClaim>,
    reserved: Held,
    start: SystemTime,
    duration: Duration,
    outcome: Result<Vec<Claimed>, StoreError>,
}

impl DispatcherTask {
    /// Claims items from the store until no item is ready or every claim is answered.
    pub(super) async fn claim_from_store(
        &mut self,
        inbox: &mut mpsc::UnboundedReceiver<Message>,
        draining: &CancellationToken,
    ) {
        self.is_held_back = false;
        let concurrency = match self.store.concurrency() {
            // Claims that take turns, or that share rows at a server, would wait for each other there.
            Concurrency::Pipelined if !self.leased_queue.takes_turns => Concurrency::Pipelined,
            _ => Concurrency::Parallel(1),
        };
        let mut series = Series {
            running: FuturesOrdered::new(),
            overlap: Overlap::new(concurrency),
            walked: Duration::ZERO,
            none_ready: None,
            share_check: Instant::now() + self.polling.min_interval,
            is_over: false,
            token_wait: None,
            withdrawal: None,
        };
        loop {
            series.is_over |= draining.is_cancelled();
            if series.running.is_empty()
                && let Some(withdrawal) = series.withdrawal.take()
            {
                self.receive(withdrawal);
            }
            self.check_shares(&mut series);
            if !series.is_over {
                self.start_operation(&mut series, inbox).await;
            }
            let takes_more = self.may_overlap(&series);
            tokio::select! {
                biased;
                ended = series.running.next() => match ended {
                    Some(ended) => self.note_end(ended, &mut series),
                    None => break,
                },
                Some(message) = inbox.recv(), if takes_more => self.take_message(message, &mut series),
            }
        }
        for claim in std::mem::take(&mut self.without_share) {
            self.wait_or_answer_empty(claim);
        }
        // Jitter keeps brokers on the same table from polling at the same moments.
        let jitter = self.random.random_range(0.75..1.25);
        let mut pause = self.poll_interval.mul_f64(jitter);
        if let Some(wait) = series.token_wait {
            // Then a rate allows an item.
            pause = pause.min(wait);
        } else if self.last_reason.get().0 == HeldBack::GroupsBusy {
            // Polls of a queue with many blocked groups take a small part of the database's time. An operation that was slow for
            // another reason, such as a lock, is no long walk.
            pause = pause.max(series.walked.min(LONGEST_WALK) * WALK_PAUSE);
        }
        self.next_poll = Instant::now() + pause;
    }

    /// Lets the next operation ask for the claims without a share again, if that is due. A busy series has no end.
    fn check_shares(&mut self, series: &mut Series) {
        if Instant::now() >= series.share_check {
            series.share_check = Instant::now() + self.polling.min_interval;
            for claim in std::mem::take(&mut self.without_share) {
                self.wait_or_answer_empty(claim);
            }
        }
    }

    /// Returns whether claims that arrive now may start an operation beside the running one.
    fn may_overlap(&self, series: &Series) -> bool {
        !series.is_over
            && series.none_ready.is_none()
            && series.withdrawal.is_none()
            && self.waiting.is_empty()
            && self.max_group_calls == MAX_GROUP_CALLS
            && series.overlap.has_room(series.running.len())
    }

    /// Takes a message while operations may run.
    fn take_message(&mut self, message: Message, series: &mut Series) {
        if matches!(message, Message::Withdraw { .. }) && !series.running.is_empty() {
            series.withdrawal = Some(message);
        } else {
            self.receive(message);
        }
    }

    /// Starts the next operation, if claims need one and none runs that they should wait for.
    async fn start_operation(
        &mut self,
        series: &mut Series,
        inbox: &mut mpsc::UnboundedReceiver<Message>,
    ) {
        let running = series.running.len();
        // Claims that arrive meanwhile have their turn among those that are left. Once no item is ready, they wait for
        // the end of the series.
        while series.none_ready.is_none()
            && series.withdrawal.is_none()
            && let Ok(message) = inbox.try_recv()
        {
            self.take_message(message, series);
        }
        if running > 0 {
            let wanted = self.arrived.iter().map(PendingClaim::items).sum();
            if !self.may_overlap(series) || !series.overlap.may_start(running, wanted, false) {
                return;
            }
        }
        let group = self.next_group(series.none_ready);
        if group.is_empty() {
            return;
        }
        let calls: Arc<[ClaimCall]> = group.iter().map(|claim| claim.call.clone()).collect();
        let reserved = if running == 0 {
            self.reserve_bytes(&calls).await
        } else {
            self.reserve_bytes(&calls).now_or_never().flatten()
        };
        let reserved = match reserved {
            Some(reserved) => reserved,
            None if running == 0 => {
                series.is_over = true;
                return self.refuse_overload(group);
            }
            // The running operation gives bytes back.
            None => return group.into_iter().for_each(|claim| self.put_back(claim)),
        };
        self.shedding.operation_starts(self.arrived.is_empty());
        series
            .overlap
            .start(group.iter().map(PendingClaim::items).sum());
        self.operations += 1;
        let number = self.operations;
        let (store, queue) = (self.store.clone(), self.leased_queue.index);
        let operation = async move {
            let (start, begun) = (SystemTime::now(), Instant::now());
            let outcome = store.claim(queue, calls, reserved.amount()).await;
            Ended {
                number,
                group,
                reserved,
                start,
                duration: begun.elapsed(),
                outcome,
            }
        };
        series.running.push_back(operation.boxed());
    }

    /// Answers the claims of an operation, or keeps those that it has not served.
    fn note_end(&mut self, ended: Ended, series: &mut Series) {
        let Ended {
            number,
            group,
            mut reserved,
            start,
            duration,
            outcome,
        } = ended;
        let items = outcome.iter().flatten().map(|claimed| claimed.items.len());
        let recorded = group.iter().map(|claim| claim.recorded.clone());
        self.spans.report(recorded, items.sum(), start, &outcome);
        let results = match outcome {
            Ok(results) if results.len() == group.len() => results,
            Ok(results) => {
                let (results, calls) = (results.len(), group.len());
                let problem = format!("the store returned {results} results for {calls} claims");
                series.is_over = true;
                return self.fail_all(group, &StoreError::Bug(problem));
            }
            Err(StoreError::Rejected(rejection)) => return self.reject(group, rejection),
            Err(error) => {
                series.is_over = true;
                return self.fail_all(group, &error);
            }
        };
        self.max_group_calls = (self.max_group_calls * 2).min(MAX_GROUP_CALLS);
        // Claims that the store has not looked at all ready items for. The next operation serves them.
        let mut unserved = Vec::new();
        let mut without_items = Vec::new();
        series.token_wait = self.last_reason.note(&results);
        self.report_dead(&results);
        let finds_items = results.iter().any(|claimed| !claimed.items.is_empty());
        series.walked = if finds_items {
            Duration::ZERO
        } else {
            series.walked + duration
        };
        // A walk over groups that was cut goes on, unless it has taken long.
        let has_walked_enough = series.walked > LONGEST_WALK;
        for (claim, claimed) in group.into_iter().zip(results) {
            if self.shows_none_ready(&claim.call, &claimed) {
                series.none_ready = Some(number);
            }
            self.is_held_back |= claimed.is_held_back || !claimed.too_large.is_empty();
            claim.status.note(&claimed);
            if !claimed.too_large.is_empty() && claimed.items.is_empty() {
                claim.status.set_too_large(claimed.too_large);
                self.leave_without_share(claim);
            } else if claimed.items.is_empty()
                && claimed.has_more
                && !(has_walked_enough && claimed.limited.is_some())
            {
                unserved.push(claim);
            } else if claimed.items.is_empty() && claimed.is_held_back {
                self.leave_without_share(claim);
            } else if claimed.items.is_empty() {
                series.none_ready = Some(number);
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

    /// Answers a claim that items are kept from, or lets it wait until it is asked for again.
    fn leave_without_share(&mut self, claim: PendingClaim) {
        if claim.is_over() {
            claim.answer_empty(self.last_reason.get(), &self.leased_queue);
        } else {
            claim.status.in_flight.store(false, Ordering::Release);
            self.without_share.push(claim);
        }
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
            let is_of_worker = match kind {
                ProblemKind::InvalidField | ProblemKind::ValueUnfit => true,
                // A trigger tells nothing of the value that it refuses. If it were the id, the caller would learn it from the text.
                ProblemKind::Trigger | ProblemKind::Other => false,
                _ => self.leased_queue.shows_worker,
            };
            if is_of_worker {
                let error = Error::invalid("worker_id", text);
                claim.answer(Err(error), None, &self.leased_queue);
            } else if claim.wait_until.is_some() {
                self.leave_without_share(claim);
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
                let refused = Err(self.leased_queue.budgets.refuse("response_bytes"));
                claim.answer(refused, None, &self.leased_queue);
            }
        }
    }

    /// Takes the claims that the next store operation serves: first those that wait, then those that have arrived.
    ///
    /// If no item is ready, claims that arrived before need a store operation only if they have a request id, because they may
    /// already hold leases. The others wait or are answered without items.
    fn next_group(&mut self, none_ready: Option<u64>) -> Vec<PendingClaim> {
        let mut group: Vec<PendingClaim> = Vec::new();
        let mut item_count = 0;
        let too_late = self.shedding.too_late();
        while item_count < MAX_GROUP_ITEMS && group.len() < self.max_group_calls {
            let waiting = match none_ready {
                Some(_) => None,
                None => self.waiting.pop(),
            };
            let next = waiting.or_else(|| self.arrived.pop());
            let Some((turn, mut claim)) = next else { break };
            claim.turn = turn;
            if !claim.is_wanted() || !claim.beginning.begin() {
                continue;
            }
            let is_told = none_ready.is_some_and(|number| claim.after < number);
            if is_told && !claim.call.has_request_id {
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
}
