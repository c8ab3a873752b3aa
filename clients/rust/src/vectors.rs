//! Runs the vectors of the worker's state machine. `clients/vectors/README.md` explains them.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lease_broker_proto as proto;
use serde_json::Value as Json;

use super::calls::CallTimes;
use super::context::{Cancelled, Cause, Context};
use super::endings::{Done, Ending};
use super::events::{Event, EventName};
use super::handler_error::{DeadLetter, HandlerError, Release};
use super::item::{HeldLeases as _, Item, LeaseNumber};
use super::keeper::{self, Heartbeat};
use super::leases::{RunNumber, Start};
use super::options::Options;
use super::settler;
use super::state::{Claims, Reserved, State};

thread_local! {
    /// The time of the machine. Each test has its own thread.
    static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
}

fn now() -> Instant {
    NOW.get().expect("a time")
}

/// A settling call that has no answer.
struct Call {
    group: Vec<Ending>,
    reserved: Reserved,
    is_resent: bool,
    sent_at: Instant,
}

/// The handler of some items.
struct Running {
    run: RunNumber,
    items: Arc<[Item]>,
    context: Context,
    is_cancelled: bool,
}

/// Drives the state machine of a worker without tasks, network or time.
struct Machine {
    start: Instant,
    state: Arc<State>,
    started: Arc<Mutex<Vec<Start>>>,
    reported: Arc<Mutex<Vec<String>>>,
    running: Vec<Running>,
    ids: HashMap<String, LeaseNumber>,
    heartbeats: Vec<(Heartbeat, Instant)>,
    calls: BTreeMap<String, Call>,
    unclaimed: Reserved,
    polled: Reserved,
    has_begun: bool,
}

fn texts(json: &Json) -> Vec<String> {
    let list = json.as_array().into_iter().flatten();
    list.map(|text| text.as_str().expect("a text").to_owned())
        .collect()
}

fn millis(json: &Json) -> Option<Duration> {
    json.as_u64().map(Duration::from_millis)
}

fn sorted(mut ids: Vec<String>) -> String {
    ids.sort_unstable();
    ids.join(" ")
}

fn keys(items: &[Item]) -> String {
    sorted(items.iter().map(|item| item.key().to_owned()).collect())
}

fn with_checkpoint(id: &str, checkpoint: Option<&Vec<u8>>) -> String {
    match checkpoint {
        Some(checkpoint) if !checkpoint.is_empty() => format!("{id}+{}", checkpoint.len()),
        _ => id.to_owned(),
    }
}

fn report(event: &Event) -> String {
    let name = event.name.as_str();
    let Some(item) = &event.item else {
        return format!("report {name} {}", event.count);
    };
    let mut text = format!("report {name} {}", item.key());
    if let Some(cause) = event.cause {
        text = format!("{text} {}", cause.name());
    }
    let detail = match event.name {
        EventName::Failed => &event.error,
        _ => &event.reason,
    };
    if !detail.is_empty() {
        text = format!("{text}: {detail}");
    }
    text
}

/// Returns the outcome, and its reason or its refusal.
fn outcome(text: &str) -> (i32, String, Option<proto::Refusal>) {
    let (name, detail) = text.split_once(": ").unwrap_or((text, ""));
    let code = match name {
        "applied" => proto::Outcome::Applied,
        "lost" => proto::Outcome::LeaseLost,
        "gone" => proto::Outcome::Gone,
        "refused" | "locked" => proto::Outcome::Refused,
        other => panic!("unknown outcome {other}"),
    };
    let (field, message) = detail.split_once(": ").unwrap_or(("", detail));
    let reason = match name {
        "locked" => proto::RefusalReason::Locked,
        _ => proto::RefusalReason::Unspecified,
    };
    let refusal = proto::Refusal {
        reason: reason.into(),
        field: field.to_owned(),
        message: message.to_owned(),
        ..proto::Refusal::default()
    };
    (code.into(), detail.to_owned(), Some(refusal))
}

impl Machine {
    fn new(options: &Json) -> Self {
        let number = |name: &str| {
            options[name]
                .as_u64()
                .map(|number| usize::try_from(number).expect("a size"))
        };
        let mut own = Options::new("127.0.0.1:1".to_owned(), "orders".to_owned());
        own.concurrency = number("slots").unwrap_or(1);
        own.batch = number("batch").unwrap_or(1);
        own.heartbeat = options["heartbeat"].as_bool().unwrap_or(true);
        own.time_limit = millis(&options["time_limit_ms"]);
        own.stuck_after = millis(&options["stuck_after_ms"]).unwrap_or(own.stuck_after);
        own.max_stuck = number("max_stuck");
        let (started, reported) = (Arc::default(), Arc::default());
        let observer = {
            let reported: Arc<Mutex<Vec<String>>> = Arc::clone(&reported);
            move |event: &Event| reported.lock().expect("a lock").push(report(event))
        };
        let start_handlers = {
            let started: Arc<Mutex<Vec<Start>>> = Arc::clone(&started);
            move |_: &_, mut starts| started.lock().expect("a lock").append(&mut starts)
        };
        own.on_event = Some(Arc::new(observer));
        let state = State::new(own, Box::new(start_handlers));
        state.lock().clock = now;
        let start = Instant::now();
        NOW.set(Some(start));
        Self {
            start,
            state: Arc::new(state),
            started,
            reported,
            running: Vec::new(),
            ids: HashMap::new(),
            heartbeats: Vec::new(),
            calls: BTreeMap::new(),
            unclaimed: Reserved::default(),
            polled: Reserved::default(),
            has_begun: false,
        }
    }

    fn accept(&self, ids: &Json, time_left: &Json, reserved: Reserved, sent_at: Instant) {
        let lease = |id: String| proto::Lease {
            lease_id: id.clone(),
            item: Some(proto::Item {
                key: id,
                ..proto::Item::default()
            }),
            attempt: 1,
            time_left: millis(time_left).map(super::values::duration_to_proto),
            ..proto::Lease::default()
        };
        let times = CallTimes {
            first_sent_at: sent_at,
            sent_at,
            arrived_at: now(),
            attempts: 1,
        };
        let leases = texts(ids).into_iter().map(lease).collect();
        self.state.accept(leases, reserved, times);
    }

    fn apply(&mut self, step: &Json) {
        let state = self.state.clone();
        match step["event"].as_str().expect("an event") {
            "begin" => self.has_begun = true,
            "claimed" => {
                let sent_at = millis(&step["sent_ms"]).map_or(now(), |at| self.start + at);
                let reserved = std::mem::take(&mut self.polled);
                self.accept(&step["leases"], &step["time_left_ms"], reserved, sent_at);
            }
            "time" => {}
            "returned" => self.end_handler(step),
            "checkpoint" => {
                let bytes = vec![
                    0;
                    usize::try_from(step["bytes"].as_u64().expect("a number"))
                        .expect("a size")
                ];
                let lease = self.ids[step["lease"].as_str().expect("a lease")];
                state.save_checkpoint(lease, &bytes);
            }
            "answer" | "failed" | "resent" if step["to"] == "heartbeat" => {
                self.answer_heartbeat(step);
            }
            "answer" | "failed" | "resent" => self.answer(step),
            "stop" => state.update(|shared| shared.claims = Claims::Stopped),
            "cancel" => state.update(super::state::Shared::cancel_all),
            "leave" => state.update(super::state::Shared::leave_handlers),
            other => panic!("unknown event {other}"),
        }
    }

    fn end_handler(&mut self, step: &Json) {
        let run = sorted(texts(&step["run"]));
        let at = self
            .running
            .iter()
            .position(|other| keys(&other.items) == run);
        let running = self.running.remove(at.expect("a handler"));
        let cause = running.context.cause();
        let text = step["text"].as_str().unwrap_or_default();
        let limit = self.state.options.time_limit;
        let endings = running.items.iter().map(|item| {
            let result: Result<Done, HandlerError> = match step["with"].as_str().expect("a result")
            {
                "result" => Ok(Done::new()),
                "release" => Err(Release::new().into()),
                "dead_letter" => {
                    let text = text.strip_prefix("DeadLetter: ").unwrap_or(text);
                    Err(DeadLetter::new(text).into())
                }
                "cancellation" => Err(Cancelled {
                    cause: cause.unwrap_or(Cause::LeaseLost),
                }
                .into()),
                _ => Err(HandlerError::failed(text.to_owned())),
            };
            Ending::of_result(item.lease(), result, cause, limit)
        });
        let endings = endings.collect();
        self.state.update(|shared| shared.end(running.run, endings));
    }

    fn answer_heartbeat(&mut self, step: &Json) {
        let (heartbeat, sent_at) = self.heartbeats.remove(0);
        if step["event"] == "failed" {
            return self
                .state
                .update(|shared| keeper::note_failure(shared, &heartbeat));
        }
        let result = |renewal: &proto::Renewal| {
            let text = step["outcomes"][&renewal.lease_id].as_str();
            let (outcome, cancel_reason, refusal) = outcome(text.expect("an outcome"));
            proto::HeartbeatResult {
                outcome,
                time_left: millis(&step["time_left_ms"]).map(super::values::duration_to_proto),
                cancel_reason,
                refusal,
                ..proto::HeartbeatResult::default()
            }
        };
        let response = proto::HeartbeatResponse {
            results: heartbeat.renewals.iter().map(result).collect(),
        };
        self.state
            .update(|shared| keeper::note(shared, &heartbeat, &response, sent_at));
    }

    fn answer(&mut self, step: &Json) {
        let to = step["to"].as_str().expect("a call");
        if step["event"] == "resent" {
            let call = self.calls.get_mut(to).expect("a call");
            call.is_resent = true;
            let group = &call.group;
            return self
                .state
                .update(|shared| settler::note_retry(shared, group));
        }
        let call = self.calls.remove(to).expect("a call");
        if step["event"] == "failed" {
            self.state
                .update(|shared| settler::note_no_answer(shared, &call.group, "no answer"));
        }
        if step["event"] == "answer" {
            let result = |ending: &Ending| {
                let id = self.ids.iter().find(|(_, lease)| **lease == ending.lease);
                let text = step["outcomes"][id.expect("a lease").0].as_str();
                let (outcome, _, refusal) = outcome(text.expect("an outcome"));
                proto::SettleResult {
                    outcome,
                    refusal,
                    ..proto::SettleResult::default()
                }
            };
            let results: Vec<_> = call.group.iter().map(result).collect();
            let since = call.is_resent.then_some(call.sent_at);
            self.state
                .update(|shared| settler::note_results(shared, call.group, &results, since));
        }
        self.accept(&step["next"], &step["time_left_ms"], call.reserved, now());
        if self.calls.is_empty() {
            self.state
                .update(|shared| settler::end_group(shared, self.unclaimed));
        }
    }

    /// Lets keeper, settler and poller act once. Returns the actions, and the moment at which the keeper looks again.
    fn follow(&mut self) -> (Vec<String>, Instant) {
        let mut actions = Vec::new();
        let (heartbeats, wake_at) = keeper::look(&self.state);
        for heartbeat in heartbeats {
            let renewals = heartbeat.renewals.iter();
            let ids = renewals
                .map(|renewal| with_checkpoint(&renewal.lease_id, renewal.checkpoint.as_ref()));
            actions.push(format!("send heartbeat {}", sorted(ids.collect())));
            self.heartbeats.push((heartbeat, now()));
        }
        self.state.lock().requeue_locked();
        if self.calls.is_empty() && !self.state.lock().endings.is_empty() {
            let (parts, unclaimed) = self.state.update(settler::take);
            self.unclaimed = unclaimed;
            if parts.is_empty() {
                self.state
                    .update(|shared| settler::end_group(shared, unclaimed));
            }
            for (reserved, group) in parts {
                actions.push(self.send(group, reserved));
            }
        }
        if self.has_begun && self.polled.slots == 0 {
            self.polled = self.state.lock().slots_to_claim();
            if self.polled.slots > 0 {
                actions.push(format!("claim {}", self.polled.items));
            }
        }
        self.note_effects(&mut actions);
        (actions, wake_at)
    }

    /// Sends a settling call. Returns the action.
    fn send(&mut self, group: Vec<Ending>, reserved: Reserved) -> String {
        let ids = group.iter().map(|ending| {
            let id = self.ids.iter().find(|(_, lease)| **lease == ending.lease);
            with_checkpoint(id.expect("a lease").0, ending.checkpoint.as_ref())
        });
        let ids = sorted(ids.collect());
        let rpc = group[0].kind.rpc();
        let claim = match reserved.items {
            0 => String::new(),
            items => format!(", claim {items}"),
        };
        let call = Call {
            group,
            reserved,
            is_resent: false,
            sent_at: now(),
        };
        self.calls.insert(rpc.to_lowercase(), call);
        format!("send {} {ids}{claim}", rpc.to_lowercase())
    }

    /// Adds the handlers that were started or cancelled, and the events.
    fn note_effects(&mut self, actions: &mut Vec<String>) {
        actions.append(&mut self.reported.lock().expect("a lock"));
        for start in std::mem::take(&mut *self.started.lock().expect("a lock")) {
            for item in &*start.items {
                self.ids.insert(item.key().to_owned(), item.lease());
            }
            actions.push(format!("start {}", keys(&start.items)));
            self.running.push(Running {
                run: start.run,
                items: start.items,
                context: start.context,
                is_cancelled: false,
            });
        }
        for running in &mut self.running {
            if let Some(cause) = running.context.cause()
                && !running.is_cancelled
            {
                running.is_cancelled = true;
                actions.push(format!("cancel {} {}", keys(&running.items), cause.name()));
            }
        }
    }

    /// Notes leases that are not started: the settler names them.
    fn note_leases(&mut self) {
        for (number, lease) in &self.state.lock().held {
            self.ids.insert(lease.id.clone(), *number);
        }
    }
}

#[test]
fn worker_acts_as_the_vectors_say() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors/worker.json");
    let vectors = std::fs::read_to_string(file).expect("the file is read");
    let vectors: Json = serde_json::from_str(&vectors).expect("JSON");
    let cases = vectors["cases"].as_array().expect("a list");
    for case in cases {
        let mut machine = Machine::new(&case["options"]);
        for step in case["steps"].as_array().expect("a list") {
            let at = millis(&step["at_ms"]).expect("a time");
            NOW.set(Some(machine.start + at));
            machine.apply(step);
            machine.note_leases();
            let (mut actions, wake_at) = machine.follow();
            let mut expected = texts(&step["actions"]);
            actions.sort_unstable();
            expected.sort_unstable();
            assert_eq!(actions, expected, "{}: {step}", case["name"]);
            if let Some(by) = millis(&step["wakes_by_ms"]) {
                assert!(wake_at <= machine.start + by, "{}: {step}", case["name"]);
            }
        }
    }
    assert!(cases.len() > 40);
}
