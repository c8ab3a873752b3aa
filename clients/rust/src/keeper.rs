//! The keeper: sends heartbeats, and watches the times of leases and handlers. It has its own thread and connection, so
//! that neither a handler nor a waiting claim delays a heartbeat.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::calls::{ATTEMPT_TIMEOUT, Caller};
use super::context::Cause;
use super::endings::{Ending, time_limit_text};
use super::events::{Event, EventName};
use super::item::LeaseNumber;
use super::leases::{Phase, RunNumber};
use super::options::{MAX_ITEMS_PER_CALL, Options};
use super::settler::MAX_GROUP_BYTES;
use super::state::{Shared, State};
use super::values::{after, duration_from_proto};
use lease_broker_proto::{self as proto, Outcome, RefusalReason};

/// The time after which a handler that was cancelled is dropped, or has failed its item for the time limit.
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// The longest time without a look at the state.
const MAX_SLEEP: Duration = Duration::from_secs(3_600);

#[derive(Clone)]
pub(super) struct Keeper {
    pub(super) state: Arc<State>,
    pub(super) caller: Caller,
    /// True after the broker has refused the token of a heartbeat.
    pub(super) fresh_token: Arc<AtomicBool>,
}

/// One Heartbeat call.
#[derive(Default)]
pub(super) struct Heartbeat {
    leases: Vec<LeaseNumber>,
    pub(super) renewals: Vec<proto::Renewal>,
    /// The time until the next ones, and the time of the attempt.
    period: Duration,
    /// The numbers of the checkpoints that the call carries.
    saved: Vec<u64>,
    bytes: usize,
}

/// The next moment to look again.
struct Alarm(Instant);

impl Alarm {
    /// Returns whether a moment has come. Otherwise the alarm goes off at that moment or before.
    fn has_come(&mut self, moment: Instant, now: Instant) -> bool {
        if moment > now {
            self.0 = self.0.min(moment);
        }
        moment <= now
    }
}

impl Keeper {
    /// Keeps the leases until the token is cancelled.
    pub(super) async fn run(self, stop: CancellationToken) {
        if self.state.options.heartbeat {
            let connect = stop
                .clone()
                .run_until_cancelled_owned(self.clone().connect());
            tokio::spawn(connect);
        }
        loop {
            let (heartbeats, wake_at) = look(&self.state);
            for heartbeat in heartbeats {
                tokio::spawn(self.clone().send(heartbeat));
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.state.signals.clock.notified() => {}
                () = tokio::time::sleep_until(wake_at.into()) => {}
            }
        }
    }

    /// Connects by a heartbeat without leases. The first lease may be short, or the name of the broker slow to resolve.
    async fn connect(self) {
        let request = proto::HeartbeatRequest {
            queue: self.state.options.queue.clone(),
            ..proto::HeartbeatRequest::default()
        };
        // The heartbeats of leases deal with errors.
        let _ = self.caller.attempt(request, ATTEMPT_TIMEOUT, false).await;
    }

    /// Sends a heartbeat once. If it fails, the next one comes soon.
    async fn send(self, heartbeat: Heartbeat) {
        let request = proto::HeartbeatRequest {
            queue: self.state.options.queue.clone(),
            renewals: heartbeat.renewals.clone(),
            // Absent: the broker extends each lease by its own duration.
            lease_duration: None,
        };
        let fresh = self.fresh_token.load(Ordering::Relaxed);
        let sent_at = Instant::now();
        let result = self.caller.attempt(request, heartbeat.period, fresh).await;
        let failure = match result {
            Ok(response) => {
                self.fresh_token.store(false, Ordering::Relaxed);
                self.state
                    .update(|shared| note(shared, &heartbeat, &response, sent_at));
                return self.state.signals.clock.notify_one();
            }
            Err(failure) => failure,
        };
        tracing::debug!(code = ?failure.code, error = failure.message, "heartbeat failed");
        self.state.update(|shared| note_failure(shared, &heartbeat));
        self.state.signals.clock.notify_one();
        let error = failure.into_error("Heartbeat");
        if error.refuses_caller() {
            self.fresh_token.store(true, Ordering::Relaxed);
            if fresh || self.caller.token.is_none() {
                self.state.control.fail(error.into());
            }
        }
    }
}

/// Acts on the times of leases and handlers. Returns the heartbeats that are due, and the moment to look again.
pub(super) fn look(state: &Arc<State>) -> (Vec<Heartbeat>, Instant) {
    state.update(|shared| {
        let now = (shared.clock)();
        let mut alarm = Alarm(now + MAX_SLEEP);
        let leases: Vec<_> = shared.held.keys().copied().collect();
        for lease in leases {
            watch_lease(shared, &state.options, lease, now, &mut alarm);
        }
        let runs: Vec<_> = shared.runs.keys().copied().collect();
        for run in runs {
            watch_run(shared, &state.options, run, now, &mut alarm);
        }
        let heartbeats = due_heartbeats(shared, &state.options, now, &mut alarm);
        shared.keeper_looks_at = alarm.0;
        (heartbeats, alarm.0)
    })
}

/// Acts on the times of a lease.
fn watch_lease(
    shared: &mut Shared,
    options: &Options,
    number: LeaseNumber,
    now: Instant,
    alarm: &mut Alarm,
) {
    let Some(lease) = shared.held.get_mut(&number) else {
        return;
    };
    if !matches!(lease.phase, Phase::Running | Phase::Ended) {
        // Its settling call ends at the deadline by itself.
        return;
    }
    if alarm.has_come(lease.lost_at(options.heartbeat), now) {
        return shared.lose(number, options.lost_reason());
    }
    if lease.phase == Phase::Ended || lease.in_doubt {
        return;
    }
    let doubt_at = after(lease.last_answer, lease.duration / 2);
    if !alarm.has_come(doubt_at, now) {
        return;
    }
    if options.heartbeat {
        lease.in_doubt = true;
        let event = Event::of_item(EventName::HeartbeatMissed, &lease.item);
        shared.emit(event);
    } else if let Some(run) = lease.run {
        shared.cancel(run, Cause::TimeLimit, "");
    }
}

/// Acts on the times of a handler.
fn watch_run(
    shared: &mut Shared,
    options: &Options,
    number: RunNumber,
    now: Instant,
    alarm: &mut Alarm,
) {
    let Some(run) = shared.runs.get(&number) else {
        return;
    };
    let (cause, cancelled_at) = match (run.cancelled, options.time_limit) {
        (Some(cancelled), _) => cancelled,
        (None, Some(limit)) if alarm.has_come(after(run.started_at, limit), now) => {
            shared.cancel(number, Cause::TimeLimit, "");
            (Cause::TimeLimit, now)
        }
        (None, _) => return,
    };
    let Some(run) = shared.runs.get(&number) else {
        return;
    };
    let is_stuck = run.stuck;
    let leases: Vec<_> = run.items.iter().map(super::item::Item::lease).collect();
    // A handler that can be dropped has ended before it would be stuck.
    let drop_at = after(cancelled_at, CANCEL_GRACE.min(options.stuck_after / 2));
    if alarm.has_come(drop_at, now) {
        shared.drop_handler(number);
    }
    let fail_at = after(cancelled_at, CANCEL_GRACE.min(options.stuck_after));
    if alarm.has_come(fail_at, now) && cause == Cause::TimeLimit && options.heartbeat {
        for lease in leases {
            shared.settle(Ending::failed(lease, &time_limit_text(options.time_limit)));
        }
    }
    if !is_stuck && alarm.has_come(after(cancelled_at, options.stuck_after), now) {
        shared.give_up(number);
    }
}

/// Returns the heartbeats that are due, and sets the time of the next ones.
fn due_heartbeats(
    shared: &mut Shared,
    options: &Options,
    now: Instant,
    alarm: &mut Alarm,
) -> Vec<Heartbeat> {
    let Some(next) = shared.next_heartbeat.filter(|_| options.heartbeat) else {
        return Vec::new();
    };
    if !alarm.has_come(next, now) {
        return Vec::new();
    }
    let mut heartbeats: Vec<Heartbeat> = Vec::new();
    let mut period: Option<Duration> = None;
    let refused_bytes = shared.refused_bytes();
    for (number, lease) in shared
        .held
        .iter()
        .filter(|(_, lease)| lease.wants_heartbeat())
    {
        let own = lease.heartbeat_period();
        period = Some(period.map_or(own, |period| period.min(own)));
        let unsaved = lease.saved != lease.stored;
        let checkpoint = lease.checkpoint.as_ref().filter(|_| unsaved);
        let checkpoint = checkpoint.filter(|checkpoint| checkpoint.len() < refused_bytes);
        let bytes = lease.id.len() + checkpoint.map_or(0, Vec::len) + 16;
        let has_room = |call: &Heartbeat| {
            call.leases.len() < MAX_ITEMS_PER_CALL && call.bytes + bytes <= MAX_GROUP_BYTES
        };
        if !heartbeats.last().is_some_and(has_room) {
            heartbeats.push(Heartbeat::default());
        }
        if let Some(call) = heartbeats.last_mut() {
            call.leases.push(*number);
            call.saved
                .push(checkpoint.map_or(lease.stored, |_| lease.saved));
            call.bytes += bytes;
            call.renewals.push(proto::Renewal {
                lease_id: lease.id.clone(),
                checkpoint: checkpoint.cloned(),
            });
        }
    }
    shared.next_heartbeat = period.map(|period| now + period);
    if let Some(next) = shared.next_heartbeat {
        alarm.has_come(next, now);
    }
    for heartbeat in &mut heartbeats {
        heartbeat.period = period.unwrap_or_default();
    }
    heartbeats
}

/// Sends the next heartbeat soon after one that failed or was refused.
pub(super) fn note_failure(shared: &mut Shared, heartbeat: &Heartbeat) {
    let now = (shared.clock)();
    shared.beat_no_later_than(now + heartbeat.period / 4);
}

/// Notes the response to a heartbeat.
pub(super) fn note(
    shared: &mut Shared,
    heartbeat: &Heartbeat,
    response: &proto::HeartbeatResponse,
    sent_at: Instant,
) {
    let mut extended = 0;
    let sent = heartbeat.leases.iter().zip(&heartbeat.saved);
    let sent = sent.zip(&heartbeat.renewals);
    for (((number, saved), renewal), result) in sent.zip(&response.results) {
        let Some(lease) = shared.held.get_mut(number) else {
            continue;
        };
        match result.outcome() {
            Outcome::Applied => {
                extended += 1;
                lease.extend(sent_at, duration_from_proto(result.time_left));
                lease.stored = lease.stored.max(*saved);
            }
            // The lease is still held, and was not extended.
            Outcome::Refused => {
                let refusal = result.refusal.clone().unwrap_or_default();
                match &renewal.checkpoint {
                    Some(checkpoint) if refusal.reason() != RefusalReason::Locked => {
                        shared.refuse_checkpoint(*number, checkpoint.len(), &refusal.message);
                        shared.beat_no_later_than((shared.clock)());
                    }
                    _ => note_failure(shared, heartbeat),
                }
            }
            _ if matches!(lease.phase, Phase::Running | Phase::Ended) => {
                shared.lose(*number, &result.cancel_reason);
            }
            // It is being settled. The settling call may have ended it, and its outcome will say.
            _ => {}
        }
    }
    let mut event = Event::new(EventName::Heartbeat);
    event.count = extended;
    shared.emit(event);
}
