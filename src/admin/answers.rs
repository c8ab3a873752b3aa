//! The answers of `/readyz` and `/version`.

use std::time::SystemTime;

use humantime::format_rfc3339_millis;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::QueueIndex;
use serde_json::{Value as Json, json};

use super::state::AdminState;
use crate::broker::Broker;

/// Returns whether the broker serves calls, and the answer of `/readyz`. `None`: the store is still being opened.
pub(super) fn readiness(broker: Option<&Broker>, queues: &[QueueSpec]) -> (bool, Json) {
    let Some(broker) = broker else {
        return (false, json!({ "ready": false, "reasons": ["starting"] }));
    };
    let store = broker.store_status();
    let reasons: Vec<&str> = [
        ("draining", broker.is_draining()),
        ("store_unavailable", !store.up),
    ]
    .into_iter()
    .filter_map(|(reason, holds)| holds.then_some(reason))
    .collect();
    let counters = |index| broker.queue_counters(QueueIndex(index));
    let reaper_errors: serde_json::Map<String, Json> = queues
        .iter()
        .enumerate()
        .filter_map(|(index, spec)| {
            let error = counters(index).reaper_error()?;
            Some((spec.name.clone(), error.into()))
        })
        .collect();
    let watched = queues
        .iter()
        .enumerate()
        .filter(|(_, spec)| spec.max_lease_age.is_some());
    let queues: Vec<Json> = watched
        .filter_map(|(index, spec)| {
            let status = broker.queue_status(QueueIndex(index))?;
            Some(json!({
                "queue": spec.name,
                "over_age": status.over_age,
                "oldest_lease_seconds": status.stats.oldest_lease.map(|age| age.as_secs_f64()),
                "stats_age_seconds": status.age.as_secs_f64(),
            }))
        })
        .collect();
    let body = json!({
        "ready": reasons.is_empty(),
        "reasons": reasons,
        "store": {
            "up": store.up,
            "since": rfc3339(store.since),
            "oldest_operation_seconds": store.oldest_operation.as_secs_f64(),
            // The last one, also after the store has recovered.
            "error": store.last_failure.as_ref().map(|failure| &failure.reason),
            "error_cause": store.last_failure.as_ref().map(|failure| failure.cause.name()),
            "error_time": store.last_failure.as_ref().map(|failure| rfc3339(failure.time)),
        },
        // By queue. Expired leases of these queues do not end, or not all of them.
        "reaper_errors": reaper_errors,
        "queues": queues,
    });
    (reasons.is_empty(), body)
}

/// Returns the answer of `/version`.
pub(super) fn version(state: &AdminState) -> Json {
    json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "commit": option_env!("LEASE_BROKER_COMMIT"),
        "rustc": env!("LEASE_BROKER_RUSTC"),
        "api": "leasebroker.v1",
        "store": state.store.name(),
        "instance_id": state.telemetry.instance_id().to_string(),
        "started": rfc3339(state.started),
    })
}

fn rfc3339(time: SystemTime) -> String {
    format_rfc3339_millis(time).to_string()
}
