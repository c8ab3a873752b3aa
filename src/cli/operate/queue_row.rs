//! The row of a queue: counts, ages, rates, pause and operations.

use lease_broker_model::item_state::State;
use lease_broker_proto as proto;
use serde_json::{Value as Json, json};

use super::operation_row::short_id;
use super::pause_parts::{PauseParts, with_pause};
use crate::cli::output::{Row, proto_moment, short_duration, std_duration};
use crate::grpc::Words as _;

/// The columns of a table beside the counts and ages.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column")]
pub(super) struct Columns {
    pub(super) rates: bool,
    pub(super) paused: bool,
    pub(super) operations: bool,
    pub(super) problem: bool,
}

impl Columns {
    /// Returns the columns that say something about these queues.
    pub(super) fn of(queues: &[proto::QueueSummary]) -> Self {
        Self {
            rates: false,
            paused: queues.iter().any(|queue| queue.pause.is_some()),
            operations: queues.iter().any(|queue| !queue.operations.is_empty()),
            problem: queues.iter().any(|queue| !queue.problem.is_empty()),
        }
    }
}

/// Returns the row of a queue. A count can be a lower bound, and an age that of the oldest of a sample. A table shows them as
/// `10000+` and `5m+`. For programs every count is a number, and `at_least` and `sampled` list the states.
pub(super) fn queue_row(queue: &proto::QueueSummary, columns: Columns) -> Row {
    let mut row = Row::default().field("queue", queue.queue.clone());
    let mut at_least = Vec::new();
    for count in &queue.counts {
        let Some(name) = count.state().known_word() else {
            continue;
        };
        let mut shown = count.count.to_string();
        if count.at_least {
            shown.push('+');
            at_least.push(name);
        }
        row = row.shown(name, shown).data(name, count.count);
    }
    if queue.counts.is_empty() {
        for state in State::ALL {
            row = row.shown(state.name(), "-").data(state.name(), Json::Null);
        }
    }
    row = row.data("at_least", at_least);
    let mut sampled = Vec::new();
    for (name, state, age, is_sampled) in [
        (
            "oldest_ready",
            "ready",
            queue.oldest_ready,
            queue.oldest_ready_sampled,
        ),
        (
            "oldest_lease",
            "leased",
            queue.oldest_lease,
            queue.oldest_lease_sampled,
        ),
    ] {
        let age = std_duration(age);
        let mut shown = age.map_or_else(|| "-".to_owned(), short_duration);
        if is_sampled && age.is_some() {
            shown.push('+');
        }
        if is_sampled {
            sampled.push(state);
        }
        row = row.shown(name, shown).data_duration(name, age);
    }
    row = row.data("sampled", sampled);
    let rates = queue.rates.unwrap_or_default();
    for (name, rate, is_shown) in [
        ("claimed", rates.claimed, true),
        ("completed", rates.completed, true),
        ("failed", rates.failed, true),
        ("expired", rates.expired, false),
        ("enqueued", rates.enqueued, false),
        ("released", rates.released, false),
    ] {
        let rate = (rate * 100.0).round() / 100.0;
        if is_shown && columns.rates {
            row = row.shown(&format!("{name}/s"), rate_text(rate));
        }
        row = row.data(&format!("{name}_per_second"), rate);
    }
    let pause = queue.pause.as_ref();
    let operations: Vec<&str> = queue
        .operations
        .iter()
        .map(|operation| &*operation.operation_id)
        .collect();
    if columns.paused {
        row = row.shown("paused", pause.map_or("-", |pause| mode_name(pause.mode())));
    }
    if columns.operations {
        let ids: Vec<&str> = operations.iter().map(|id| short_id(id)).collect();
        row = row.shown(
            "operations",
            if ids.is_empty() {
                "-".to_owned()
            } else {
                ids.join(" ")
            },
        );
    }
    let problem = Some(&*queue.problem).filter(|problem| !problem.is_empty());
    if columns.problem {
        row = row.shown("problem", problem.unwrap_or("-"));
    }
    row.data("waiting_claims", queue.waiting_claims)
        .data("problem", json!(problem))
        .data("paused", json!(pause.map(|pause| mode_name(pause.mode()))))
        .data("pause_reason", json!(pause.map(|pause| &*pause.reason)))
        .data("pause_actor", json!(pause.map(|pause| &*pause.actor)))
        .data(
            "pause_until",
            proto_moment(pause.and_then(|pause| pause.until)),
        )
        .data("operations", operations)
}

/// Returns a rate with at most two digits after the point.
pub(super) fn rate_text(rate: f64) -> String {
    if rate >= 10.0 {
        format!("{rate:.0}")
    } else {
        let text = format!("{rate:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Returns a text that changes when the counts, the pause or the operations change, and not when only ages and rates do.
pub(super) fn queue_fingerprint(queue: &proto::QueueSummary) -> String {
    let operations = queue.operations.iter();
    let ids: Vec<&str> = operations
        .map(|operation| &*operation.operation_id)
        .collect();
    format!("{:?}", (&queue.counts, &queue.pause, ids, &queue.problem))
}

/// Returns the name of the mode of a pause, as the flag `--mode` has it.
fn mode_name(mode: proto::PauseMode) -> &'static str {
    mode.known_word().unwrap_or("claims")
}

/// Returns a pause as one sentence.
pub(super) fn pause_text(pause: &proto::QueuePause) -> String {
    let parts = match pause.mode() {
        proto::PauseMode::Enqueue => "refuses new items",
        proto::PauseMode::Both => "gives no leases and refuses new items",
        proto::PauseMode::Claims | proto::PauseMode::Unspecified => "gives no leases",
    };
    let rest = PauseParts::from(pause).text();
    format!("queue {} is paused: it {parts}{rest}", pause.queue)
}

/// Returns the row of a pause.
pub(super) fn pause_row(queue: &str, pause: Option<&proto::QueuePause>) -> Row {
    let mode = pause.map(|pause| mode_name(pause.mode()));
    let row = Row::default()
        .field("queue", queue)
        .field("paused", json!(mode));
    with_pause(row, pause.map(PauseParts::from))
}
