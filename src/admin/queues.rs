//! The answer of `/debug/queues`: the configuration and the counters of each queue.

use std::time::Duration;

use humantime::format_duration;
use lease_broker_model::item_state::State;
use lease_broker_model::queue::{ClaimStrategy, OnComplete, Order, QueueSpec};
use lease_broker_store::QueueIndex;
use serde_json::{Map, Value as Json, json};

use super::state::AdminState;
use crate::broker::{Broker, Operation, QueueStatus};

/// Describes every queue.
pub(super) fn describe(state: &AdminState) -> Json {
    let broker = state.broker.get();
    let queues = state.queues.iter().enumerate().map(|(index, spec)| {
        let operation_counts = broker.map(|broker| operation_counts(broker, QueueIndex(index)));
        let status = broker.and_then(|broker| broker.queue_status(QueueIndex(index)));
        json!({
            "queue": spec.name,
            "configuration": configuration(spec),
            "operation_counts": operation_counts,
            "statistics": status.as_ref().map(statistics),
        })
    });
    Json::Array(queues.collect())
}

/// Returns the settings of a queue, as they are in effect.
fn configuration(spec: &QueueSpec) -> Json {
    let order = match &spec.order {
        Order::None => json!("none"),
        Order::By(columns) => columns
            .iter()
            .map(|order| {
                format!(
                    "{}{}",
                    order.column,
                    if order.descending { " desc" } else { "" }
                )
            })
            .collect(),
    };
    let on_complete = match &spec.on_complete {
        OnComplete::Keep => json!("keep"),
        OnComplete::Delete => json!("delete"),
        OnComplete::Archive(table) => json!({ "archive": table }),
        OnComplete::Recur(interval) => json!({ "recur": format_duration(*interval).to_string() }),
    };
    let backoff = spec.retry.backoff;
    json!({
        "table": spec.table,
        "managed": spec.managed_columns.is_some(),
        "key": spec.key,
        "columns": spec.columns,
        "order": order,
        "lease_duration": format_duration(spec.lease.default).to_string(),
        "min_lease_duration": format_duration(spec.lease.min).to_string(),
        "max_lease_duration": format_duration(spec.lease.max).to_string(),
        "max_attempts": spec.retry.max_attempts.unwrap_or(0),
        "backoff": {
            "initial": format_duration(backoff.initial).to_string(),
            "factor": backoff.factor,
            "max": format_duration(backoff.max).to_string(),
            "jitter": backoff.jitter,
        },
        "max_lease_age": spec.max_lease_age.map(|age| format_duration(age).to_string()),
        "on_complete": on_complete,
        "filtered_indexes": spec.filtered_indexes,
        "completed_index": spec.completed_index,
        "claim_strategy": match spec.claim_strategy {
            ClaimStrategy::SkipLocked => "skip_locked",
            ClaimStrategy::AppLock => "app_lock",
        },
    })
}

/// Returns the last statistics of a queue, with their age.
fn statistics(status: &QueueStatus) -> Json {
    let items = State::ALL.map(|state| {
        let count = status.stats.count_of(state);
        (state.name().to_owned(), json!(count))
    });
    let seconds = |age: Option<Duration>| age.map(|age| age.as_secs_f64());
    json!({
        "items": Map::from_iter(items),
        "oldest_ready_seconds": seconds(status.stats.oldest_ready),
        "oldest_lease_seconds": seconds(status.stats.oldest_lease),
        "sampled": status.stats.sampled_states().map(State::name).collect::<Vec<_>>(),
        "over_age": status.over_age,
        "age_seconds": status.age.as_secs_f64(),
    })
}

/// Returns the counters of a queue since the broker started.
fn operation_counts(broker: &Broker, queue: QueueIndex) -> Map<String, Json> {
    let counters = Operation::ALL.map(|operation| {
        let count = broker.queue_operation_count(queue, operation);
        let counters =
            json!({ "calls": count.calls, "statements": count.statements, "items": count.items });
        (operation.name().to_owned(), counters)
    });
    counters.into_iter().collect()
}
