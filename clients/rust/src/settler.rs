//! The settler: tells the broker how items have ended, in groups, and claims the next items by the same call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use uuid::Uuid;

use super::calls::{
    ATTEMPT_TIMEOUT, CallOptions, CallTimes, Caller, MIN_BACKOFF, pause_after_lock,
};
use super::endings::{Ending, Kind};
use super::errors::{Applied, CallError};
use super::events::{Event, EventName, RetriedCall};
use super::failure::{Failure, Pushback};
use super::leases::{HeldLease, Phase};
use super::options::MAX_ITEMS_PER_CALL;
use super::poller::MAX_RESPONSE_BYTES;
use super::state::{LOST_BY_BROKER, Reserved, Shared, State};
use super::values::duration_to_proto;
use super::way::Way;
use lease_broker_proto::{self as proto, Outcome, RefusalReason};

/// The limits of one call: follow-ups of all items, and bytes, below the broker's 4 MiB.
const MAX_FOLLOW_UPS: usize = 1_000;
pub(super) const MAX_GROUP_BYTES: usize = 3 << 20;
/// The pause in which handlers that end together join a group.
const GATHER_PAUSE: Duration = Duration::from_micros(50);

#[derive(Clone)]
pub(super) struct Settler {
    pub(super) state: Arc<State>,
    pub(super) caller: Caller,
}

/// The parts that the responses to the three settling calls have in common: results, new leases, and the error of their claim.
type Settlement = (
    Vec<proto::SettleResult>,
    Option<proto::ClaimBatchResponse>,
    Option<proto::CallError>,
);

impl Settler {
    /// Settles until the state says that no ending follows.
    pub(super) async fn run(self) {
        while self.wait_for_endings().await {
            self.gather().await;
            let (parts, unused) = self.state.update(take);
            join_all(
                parts
                    .into_iter()
                    .map(|(reserved, part)| self.send(Way::of(&part), part, reserved)),
            )
            .await;
            self.state.update(|shared| end_group(shared, unused));
        }
    }

    /// Returns false if no ending follows.
    async fn wait_for_endings(&self) -> bool {
        loop {
            let next = {
                let mut shared = self.state.lock();
                let next = shared.requeue_locked();
                if !shared.endings.is_empty() {
                    return true;
                }
                if shared.settled_all && next.is_none() {
                    return false;
                }
                next
            };
            let ready = self.state.signals.endings_ready.notified();
            match next {
                Some(at) => drop(tokio::time::timeout_at(at.into(), ready).await),
                None => ready.await,
            }
        }
    }

    /// Lets handlers that end at the same time share a call. Waits for long handlers, else as long as that brings further endings.
    async fn gather(&self) {
        let wait = {
            let shared = self.state.lock();
            shared.gathering.wait(shared.runs.len())
        };
        if !wait.is_zero() {
            return tokio::time::sleep(wait).await;
        }
        let mut seen = 0;
        loop {
            let (found, running) = {
                let shared = self.state.lock();
                (shared.endings.len(), shared.runs.len())
            };
            if found == seen || running == 0 || found >= MAX_ITEMS_PER_CALL {
                return;
            }
            seen = found;
            // This thread has nothing else to do: claims wait while there are endings. A timer of tokio waits for 1 ms.
            std::thread::sleep(GATHER_PAUSE);
        }
    }

    /// Sends endings of one kind, and claims for the slots.
    fn send(&self, mut way: Way, group: Vec<Ending>, reserved: Reserved) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let next = (reserved.slots > 0).then(|| self.next_claim(reserved));
            let request_id = next.as_ref().map(|next| next.request_id.clone());
            let error = match self.call(&mut way, &group, next).await {
                Ok(((results, next, next_error), times)) => {
                    let postponed = self.state.update(|shared| {
                        let resent_since = (times.attempts > 1).then_some(times.first_sent_at);
                        note_results(shared, group, &results, resent_since)
                    });
                    if let Some(retried) = postponed {
                        self.state.signals.clock.notify_one();
                        (self.caller.on_retry)(retried, &Failure::of_lock());
                    }
                    if let Some(error) = next_error {
                        let failure = Failure::of_next(error);
                        return self.note_next_failure(failure, reserved, request_id);
                    }
                    let next = next.unwrap_or_default();
                    return self.state.accept(next.leases, reserved, times);
                }
                Err(error) => error,
            };
            self.state.update(|shared| {
                if error.applied != Applied::No {
                    shared.abandoned.extend(request_id);
                }
                shared.return_slots(reserved);
            });
            if reserved.slots > 0 && error.refuses_next() {
                // Nothing is wrong with the endings. A poller claims for the slots, and reports the error.
                let way = Way::of(&group);
                return self.send(way, group, Reserved::default()).await;
            }
            if way.refuses || error.refuses_request() {
                return self.send_alone(&way, group, &error).await;
            }
            self.state
                .update(|shared| note_no_answer(shared, &group, &error.to_string()));
            if error.refuses_caller() {
                self.state.control.fail(error.into());
            }
        })
    }

    /// Settles the endings of a refused call one by one, so that only the malformed one fails.
    async fn send_alone(&self, way: &Way, group: Vec<Ending>, error: &CallError) {
        if error.reason.is_empty() {
            let (queue, items) = (&self.state.options.queue, group.len());
            tracing::warn!(
                queue,
                items,
                %error,
                "a settlement is refused on the way to the broker: its items are settled one by one, or failed"
            );
        }
        if let [ending] = &*group {
            return self
                .state
                .update(|shared| refuse(shared, ending, "", &error.message));
        }
        for ending in group {
            let way = way.of_part(&ending);
            self.send(way, vec![ending], Reserved::default()).await;
        }
    }

    /// Keeps the leases of a settlement that is sent again: this may take a while.
    fn keep_leases(&self, group: &[Ending]) {
        self.state.update(|shared| note_retry(shared, group));
        self.state.signals.clock.notify_one();
    }

    /// Acts on the failure of the claim in `next` as on that of a call of its own. Its slots rest for as long as the
    /// broker asks.
    fn note_next_failure(&self, failure: Failure, reserved: Reserved, request_id: Option<String>) {
        if failure.applied != Applied::No {
            self.state
                .update(|shared| shared.abandoned.extend(request_id));
        }
        if !failure.may_pass() {
            self.state.update(|shared| shared.return_slots(reserved));
            let error = failure.into_error("ClaimBatch");
            return self.state.control.fail(error.into());
        }
        let wait = match failure.pushback {
            Pushback::Wait(wait) => wait,
            Pushback::Never | Pushback::Unknown => MIN_BACKOFF,
        };
        let retried = RetriedCall {
            rpc: "ClaimBatch",
            code: failure.code,
            attempt: 1,
            wait,
        };
        (self.caller.on_retry)(retried, &failure);
        let state = self.state.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            state.update(|shared| shared.return_slots(reserved));
        });
    }

    /// Sends the settling call of a group until the last of its leases ends.
    async fn call(
        &self,
        way: &mut Way,
        group: &[Ending],
        next: Option<proto::NextClaim>,
    ) -> Result<(Settlement, CallTimes), CallError> {
        let until = || last_deadline(&self.state.lock(), group);
        let on_retry = || self.keep_leases(group);
        let way = Mutex::new(way);
        let gives_up = |failure: &Failure| {
            let mut way = way.lock().unwrap_or_else(PoisonError::into_inner);
            way.note(&self.state.lock(), failure)
        };
        let options = CallOptions {
            until: Some(&until),
            attempt_timeout: Some(settle_timeout(&self.state.lock(), group)),
            on_retry: Some(&on_retry),
            gives_up: Some(&gives_up),
        };
        let queue = || self.state.options.queue.clone();
        Ok(match group.first().map(|ending| ending.kind) {
            Some(Kind::Fail) => {
                let request = |_| proto::FailRequest {
                    queue: queue(),
                    failures: group.iter().map(Ending::failure).collect(),
                    next: next.clone(),
                };
                let (message, times) = self.caller.call(request, options).await?;
                let settlement = (message.results, message.next, message.next_error);
                (settlement, times)
            }
            Some(Kind::Release) => {
                let request = |_| proto::ReleaseRequest {
                    queue: queue(),
                    releases: group.iter().map(Ending::release).collect(),
                };
                let (message, times) = self.caller.call(request, options).await?;
                ((message.results, None, None), times)
            }
            _ => {
                let request = |_| proto::CompleteRequest {
                    queue: queue(),
                    completions: group.iter().map(Ending::completion).collect(),
                    next: next.clone(),
                };
                let (message, times) = self.caller.call(request, options).await?;
                let settlement = (message.results, message.next, message.next_error);
                (settlement, times)
            }
        })
    }

    fn next_claim(&self, reserved: Reserved) -> proto::NextClaim {
        let options = &self.state.options;
        proto::NextClaim {
            groups: options.groups.clone(),
            worker_id: options.worker_id.clone(),
            max_items: i32::try_from(reserved.items).unwrap_or(i32::MAX),
            lease_duration: options.lease.map(duration_to_proto),
            request_id: Uuid::new_v4().to_string(),
            max_bytes: MAX_RESPONSE_BYTES,
            max_run: 0,
        }
    }
}

/// Takes the next group. Returns the endings of each kind, which are a call each, with the slots for which the call claims. Then
/// the slots for which no call claims: the first call claims the next items, but a Release cannot.
pub(super) fn take(shared: &mut Shared) -> (Vec<(Reserved, Vec<Ending>)>, Reserved) {
    let mut group = take_group(shared);
    shared.settling = true;
    let mut unused = shared.reserve_slots();
    let mut parts = Vec::new();
    for kind in [Kind::Complete, Kind::Fail, Kind::Release] {
        let part: Vec<_> = group.extract_if(.., |ending| ending.kind == kind).collect();
        if !part.is_empty() {
            let reserved = if kind == Kind::Release {
                Reserved::default()
            } else {
                std::mem::take(&mut unused)
            };
            parts.push((reserved, part));
        }
    }
    (parts, unused)
}

/// Notes that all calls of a group are answered. `unused`: the slots for which none of them has claimed.
pub(super) fn end_group(shared: &mut Shared, unused: Reserved) {
    shared.settling = false;
    shared.return_slots(unused);
}

/// Keeps the leases of a settlement that is sent again by heartbeats: this may take a while.
pub(super) fn note_retry(shared: &mut Shared, group: &[Ending]) {
    for ending in group {
        if let Some(lease) = shared.held.get_mut(&ending.lease) {
            lease.phase = Phase::Resending;
        }
    }
    shared.beat_no_later_than((shared.clock)());
}

/// Forgets the leases of a settlement that will get no answer.
pub(super) fn note_no_answer(shared: &mut Shared, group: &[Ending], error: &str) {
    for ending in group {
        if let Some(lease) = shared.held.remove(&ending.lease) {
            let event = Event::of_item(EventName::Unknown, &lease.item);
            shared.emit(event.with_error(error));
            shared.note_loss(&lease, error);
        }
    }
}

/// Notes the outcomes of endings. Returns the pause of those whose rows are locked, if they are sent again. `resent_since`: the
/// moment of the first attempt of a call that was sent again.
pub(super) fn note_results(
    shared: &mut Shared,
    group: Vec<Ending>,
    results: &[proto::SettleResult],
    resent_since: Option<Instant>,
) -> Option<RetriedCall> {
    let mut locked = Vec::new();
    for (ending, result) in group.into_iter().zip(results) {
        let refusal = result.refusal.as_ref();
        if refusal.is_some_and(|refusal| refusal.reason() == RefusalReason::Locked) {
            locked.push(ending);
        } else {
            note_result(shared, &ending, result, resent_since);
        }
    }
    postpone(shared, locked)
}

/// Sends endings whose rows are locked again after a pause. `None`: their leases end before.
fn postpone(shared: &mut Shared, locked: Vec<Ending>) -> Option<RetriedCall> {
    let rpc = locked.first()?.kind.rpc();
    note_retry(shared, &locked);
    let tries = 1 + held(shared, &locked).map(|lease| lease.tries).max()?;
    let failure = Failure::of_lock();
    let wait = pause_after_lock(tries, settle_timeout(shared, &locked));
    let code = failure.code;
    let at = (shared.clock)() + wait;
    if last_deadline(shared, &locked) <= at {
        note_no_answer(shared, &locked, &failure.into_error(rpc).to_string());
        return None;
    }
    for ending in locked {
        if let Some(lease) = shared.held.get_mut(&ending.lease) {
            lease.tries = tries;
            shared.locked.push((at, ending));
        }
    }
    Some(RetriedCall {
        rpc,
        code,
        attempt: tries,
        wait,
    })
}

/// Notes an outcome that is final.
fn note_result(
    shared: &mut Shared,
    ending: &Ending,
    result: &proto::SettleResult,
    resent_since: Option<Instant>,
) {
    let Some(lease) = shared.held.get(&ending.lease) else {
        return;
    };
    let name = match result.outcome() {
        Outcome::Refused => {
            let refusal = result.refusal.clone().unwrap_or_default();
            let problem = match &*refusal.field {
                "" => refusal.message,
                field => format!("{field}: {}", refusal.message),
            };
            return refuse(shared, ending, &refusal.field, &problem);
        }
        Outcome::Applied => ending.kind.event(),
        // If the request was sent before, while the lease was held, that attempt has removed the row.
        Outcome::Gone if resent_since.is_some_and(|since| since < lease.deadline) => {
            EventName::Completed
        }
        Outcome::Gone => EventName::Unknown,
        _ => EventName::Lost,
    };
    let Some(lease) = shared.held.remove(&ending.lease) else {
        return;
    };
    if name == EventName::Failed {
        shared.emit(Event::of_item(name, &lease.item).with_error(ending.text.as_str()));
    } else {
        shared.emit_of_item(name, &lease.item);
    }
    match name {
        EventName::Lost => shared.note_loss(&lease, LOST_BY_BROKER),
        EventName::Unknown => shared.note_loss(&lease, "the row is gone"),
        _ => {}
    }
}

/// Settles an item in another way after the broker has refused its ending: the same one can never succeed. `field`: the
/// refused field of the ending, if it is known.
fn refuse(shared: &mut Shared, ending: &Ending, field: &str, problem: &str) {
    let Some(lease) = shared.held.get_mut(&ending.lease) else {
        return;
    };
    lease.phase = Phase::Running;
    let event = Event::of_item(EventName::Refused, &lease.item).with_reason(problem);
    // The broker stores the reason too, but only the last one of each item.
    let (key, attempt, rpc) = (lease.item.key(), lease.item.attempt(), ending.kind.rpc());
    tracing::warn!(rpc, key, attempt, error = problem, "ending refused");
    shared.emit(event);
    let instead = if ending.kind == Kind::Complete {
        Some(Ending::failed(ending.lease, &format!("Refused: {problem}")))
    } else {
        ending.without_refused(field)
    };
    let Some(instead) = instead else {
        shared.held.remove(&ending.lease);
        return;
    };
    if let Some(checkpoint) = &ending.checkpoint
        && instead.checkpoint.is_none()
    {
        shared.refuse_checkpoint(ending.lease, checkpoint.len(), problem);
    }
    shared.settle(instead);
}

/// Takes the endings that one call can carry, in the order in which the handlers ended.
fn take_group(shared: &mut Shared) -> Vec<Ending> {
    let mut group = Vec::with_capacity(shared.endings.len().min(MAX_ITEMS_PER_CALL));
    let (mut follow_ups, mut size) = (0, 0);
    let now = (shared.clock)();
    let mut is_resent = false;
    let refused_bytes = shared.refused_bytes();
    while let Some(ending) = shared.endings.front_mut() {
        let mut differs = false;
        if let Some(lease) = shared.held.get(&ending.lease) {
            let checkpoint = lease.checkpoint.as_ref();
            let checkpoint = checkpoint.filter(|checkpoint| checkpoint.len() < refused_bytes);
            ending.set_lease(&lease.id, checkpoint);
            // One whose row was locked may wait for the lock again, and others would wait with it.
            differs = is_resent != (lease.phase == Phase::Resending);
        }
        follow_ups += ending.follow_ups();
        size += ending.size();
        let is_full = differs
            || group.len() == MAX_ITEMS_PER_CALL
            || follow_ups > MAX_FOLLOW_UPS
            || size > MAX_GROUP_BYTES;
        if is_full && !group.is_empty() {
            break;
        }
        let Some(ending) = shared.endings.pop_front() else {
            break;
        };
        // A lease that was lost while its ending waited is not there any more.
        let Some(lease) = shared.held.get_mut(&ending.lease) else {
            continue;
        };
        if now < lease.deadline {
            is_resent = lease.phase == Phase::Resending;
            if !is_resent {
                lease.phase = Phase::Settling;
            }
            group.push(ending);
        } else {
            shared.lose(ending.lease, shared.options.lost_reason());
        }
    }
    group
}

/// Returns the leases of endings that are still held.
fn held<'a>(shared: &'a Shared, group: &'a [Ending]) -> impl Iterator<Item = &'a HeldLease> {
    let leases = group.iter().map(|ending| ending.lease);
    leases.filter_map(|lease| shared.held.get(&lease))
}

fn last_deadline(shared: &Shared, group: &[Ending]) -> Instant {
    let deadlines = held(shared, group).map(|lease| lease.deadline);
    deadlines.max().unwrap_or_else(Instant::now)
}

/// Returns the time of an attempt. If a connection is dead, another attempt must be made before a lease ends.
fn settle_timeout(shared: &Shared, group: &[Ending]) -> Duration {
    let halves = held(shared, group).map(|lease| lease.duration / 2);
    let shortest = halves.min().unwrap_or(ATTEMPT_TIMEOUT);
    shortest.clamp(Duration::from_secs(1), ATTEMPT_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::super::endings::Done;
    use super::super::item::HeldLeases as _;
    use super::super::memory_log::MemoryLog;
    use super::super::options::Options;
    use super::*;

    /// Returns a state that holds leases of the items 0, 1 and so on.
    fn state_with_leases(count: usize) -> (Arc<State>, Vec<u64>) {
        let mut options = Options::new("127.0.0.1:1".to_owned(), "work".to_owned());
        options.concurrency = count;
        let state = Arc::new(State::new(options, Box::new(|_, _| {})));
        let lease = |key: usize| proto::Lease {
            lease_id: format!("id {key}"),
            item: Some(proto::Item {
                key: key.to_string(),
                ..proto::Item::default()
            }),
            attempt: 1,
            time_left: Some(duration_to_proto(Duration::from_secs(30))),
            ..proto::Lease::default()
        };
        let times = CallTimes::at(Instant::now());
        let reserved = state.lock().slots_to_claim();
        state.accept((0..count).map(lease).collect(), reserved, times);
        let numbers = state.lock().held.keys().copied().collect();
        (state, numbers)
    }

    #[test]
    fn leases_that_are_lost_together_are_logged_in_one_line() {
        let (state, numbers) = state_with_leases(12);
        let log = MemoryLog::default();
        let _guard = log.collect();
        state.update(|shared| {
            shared.end(0, vec![Ending::completed(numbers[0], Done::new())]);
            for number in numbers {
                shared.lose(number, "moved");
            }
        });
        let keys: Vec<_> = (1..=10).map(|key| key.to_string()).collect();
        let lines = [
            format!(
                r#" WARN lease lost: another worker may process the item queue="work" keys={keys:?} attempts={:?} others=1 reason="moved""#,
                [1; 10]
            ),
            r#" WARN processed, but another worker may process it again queue="work" keys=["0"] attempts=[1] others=0 reason="moved""#.to_owned(),
        ];
        assert_eq!(log.lines(), lines);
    }

    #[test]
    fn endings_that_are_not_applied_are_logged() {
        let (state, numbers) = state_with_leases(4);
        let complete = |number| Ending::completed(number, Done::new());
        let endings = [
            vec![complete(numbers[0]), complete(numbers[1])],
            vec![complete(numbers[2])],
            vec![Ending::released(numbers[3], None)],
        ];
        let outcome = |outcome: Outcome| proto::SettleResult {
            outcome: outcome.into(),
            ..proto::SettleResult::default()
        };
        let results = [Outcome::LeaseLost, Outcome::Gone].map(outcome);
        let log = MemoryLog::default();
        let _guard = log.collect();
        state.update(|shared| {
            for (run, ending) in endings.iter().flatten().enumerate() {
                shared.end(run as u64, vec![ending.clone()]);
            }
        });
        let [answered, failed, released] = endings;
        state.update(|shared| note_results(shared, answered, &results, None));
        state.update(|shared| note_no_answer(shared, &failed, "no answer"));
        state.update(|shared| note_no_answer(shared, &released, "no answer"));
        let processed = " WARN processed, but another worker may process it again";
        let lost = " WARN lease lost: another worker may process the item";
        let lines = [
            (processed, 0, LOST_BY_BROKER),
            (processed, 1, "the row is gone"),
            (processed, 2, "no answer"),
            (lost, 3, "no answer"),
        ];
        let line = |(text, key, reason)| {
            format!(r#"{text} queue="work" keys=["{key}"] attempts=[1] others=0 reason="{reason}""#)
        };
        assert_eq!(log.lines(), lines.map(line));
    }

    #[test]
    fn checkpoint_after_the_end_of_the_handler_is_dropped() {
        let (state, numbers) = state_with_leases(1);
        let log = MemoryLog::default();
        let _guard = log.collect();
        state.update(|shared| shared.settle(Ending::completed(numbers[0], Done::new())));
        state.save_checkpoint(numbers[0], &vec![0; 65_537]);
        assert_eq!(log.lines(), [""; 0]);
    }

    #[test]
    fn refused_ending_is_logged_with_the_reason() {
        let (state, numbers) = state_with_leases(1);
        let number = numbers[0];
        let refused = proto::SettleResult {
            outcome: Outcome::Refused.into(),
            refusal: Some(proto::Refusal {
                field: "columns.Total".to_owned(),
                message: "12.5 is a float".to_owned(),
                ..proto::Refusal::default()
            }),
            ..proto::SettleResult::default()
        };
        let endings = vec![Ending::completed(number, Done::new())];
        let log = MemoryLog::default();
        let _guard = log.collect();
        state.update(|shared| note_results(shared, endings, &[refused], None));
        let line = r#" WARN ending refused rpc="Complete" key="0" attempt=1 error="columns.Total: 12.5 is a float""#;
        assert_eq!(log.lines(), [line]);
    }
}
