//! The answer of `/debug/queues`: the configuration and the counters of each queue.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_store::QueueIndex;
use serde_json::{Map, Value as Json, json};

use super::state::AdminState;
use crate::broker::{Broker, Operation, QueueStatus};
use crate::grpc::queue_settings;

/// Describes every queue.
pub(super) fn describe(state: &AdminState) -> Json {
    let broker = state.broker.get();
    let queues = state.queues.iter().enumerate().map(|(index, spec)| {
        let operation_counts = broker.map(|broker| operation_counts(broker, QueueIndex(index)));
        let status = broker.and_then(|broker| broker.queue_status(QueueIndex(index)));
        json!({
            "queue": spec.name,
            "configuration": queue_settings(spec),
            "operation_counts": operation_counts,
            "statistics": status.as_ref().map(statistics),
        })
    });
    Json::Array(queues.collect())
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
