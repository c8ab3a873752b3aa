//! The settings of a queue as JSON, for operators.

use std::time::Duration;

use lease_broker_model::queue::{ClaimStrategy, OnComplete, Order, QueueSpec};
use serde_json::{Value as Json, json};

use crate::config::duration_text;

/// Returns the settings of a queue, as they are in effect. Those about leases and rows come first, because `top` cuts the text.
pub fn queue_settings(spec: &QueueSpec) -> Json {
    let text = duration_text;
    let keep = |age: Option<Duration>| age.map_or("never".to_owned(), text);
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
        OnComplete::Recur(interval) => json!({ "recur": text(*interval) }),
    };
    let backoff = spec.retry.backoff;
    json!({
        "table": spec.table,
        "key": spec.key,
        "writable": spec.writable,
        "filterable": spec.filterable,
        "order": order,
        "lease_duration": text(spec.lease.default),
        "min_lease_duration": text(spec.lease.min),
        "max_lease_duration": text(spec.lease.max),
        "max_lease_age": spec.max_lease_age.map(text),
        "max_attempts": spec.retry.max_attempts.unwrap_or(0),
        "checkpoint_max_bytes": spec.max_checkpoint_bytes,
        "max_item_bytes": spec.max_item_bytes,
        "enqueue_memory": text(spec.enqueue_memory),
        "on_complete": on_complete,
        "keep_for": {
            "completed": keep(spec.keep_for.completed),
            "dead": keep(spec.keep_for.dead),
            "archive": keep(spec.keep_for.archive),
        },
        "purge": spec.allows_purge,
        "managed": spec.managed_columns.is_some(),
        "columns": spec.columns,
        "backoff": {
            "initial": text(backoff.initial),
            "factor": backoff.factor,
            "max": text(backoff.max),
            "jitter": backoff.jitter,
        },
        "filtered_indexes": spec.filtered_indexes,
        "completed_index": spec.completed_index,
        "claim_strategy": match spec.claim_strategy {
            ClaimStrategy::SkipLocked => "skip_locked",
            ClaimStrategy::AppLock => "app_lock",
        },
    })
}
