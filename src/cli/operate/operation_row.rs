//! The row of an operation.

use lease_broker_proto as proto;
use serde_json::{Map, Value as Json, json};

use super::change_kind::ChangeKind;
use super::item_row::known;
use crate::cli::output::{Row, json_value, proto_moment};
use crate::grpc::Words as _;

/// Returns the first part of an id, which is enough to tell operations apart on a screen.
pub(super) fn short_id(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

/// Returns the row of an operation in a list.
pub(super) fn operation_row(operation: &proto::Operation) -> Row {
    let kind = ChangeKind::of_operation(operation);
    Row::default()
        .field("operation_id", operation.operation_id.clone())
        .field("queue", operation.queue.clone())
        .field("action", json!(kind.map(ChangeKind::name)))
        .field("items", json!(kind.map(ChangeKind::state)))
        .field("state", operation.state().word())
        .field("changed", operation.changed)
        .field("refused", operation.refused)
        .data("examined", operation.examined)
        .field("create_time", proto_moment(operation.create_time))
        .data("end_time", proto_moment(operation.end_time))
        .data(
            "limit",
            json!((operation.limit > 0).then_some(operation.limit)),
        )
        .data(
            "max_per_second",
            json!((operation.max_per_second > 0).then_some(operation.max_per_second)),
        )
        .data("filter", filter_json(operation.filter.as_ref()))
        .field("actor", known(&operation.actor))
        .field("reason", known(&operation.reason))
        .field("error", known(&operation.error))
        .data("broker_id", known(&operation.broker_id))
        .data("cancelled_by", known(&operation.cancelled_by))
}

/// Returns all fields of an operation, for people too.
pub(super) fn operation_record(operation: &proto::Operation) -> Row {
    let mut row = operation_row(operation);
    for (name, value) in [
        ("examined", json!(operation.examined)),
        ("end_time", proto_moment(operation.end_time)),
        ("filter", filter_json(operation.filter.as_ref())),
        ("broker_id", known(&operation.broker_id)),
        ("cancelled_by", known(&operation.cancelled_by)),
    ] {
        row = row.shown_value(name, &value);
    }
    row
}

/// Returns a text that changes when the operation does.
pub(super) fn operation_fingerprint(operation: &proto::Operation) -> String {
    let proto::Operation {
        state,
        changed,
        refused,
        error,
        broker_id,
        ..
    } = operation;
    format!("{:?}", (state, changed, refused, error, broker_id))
}

fn filter_json(filter: Option<&proto::ItemFilter>) -> Json {
    let Some(filter) = filter else {
        return Json::Null;
    };
    let mut fields = Map::new();
    let mut add = |name: &str, value: Json| {
        if !value.is_null() {
            fields.insert(name.to_owned(), value);
        }
    };
    if !filter.keys.is_empty() {
        add("keys", json!(filter.keys));
    }
    add("owner", known(&filter.owner));
    add("error", known(&filter.error_contains));
    add("since", proto_moment(filter.state_since));
    add("before", proto_moment(filter.state_before));
    if filter.min_attempt > 0 {
        add("min_attempt", json!(filter.min_attempt));
    }
    for (name, value) in &filter.columns {
        let value = lease_broker_client::Value::try_from(value.clone());
        let value = value.map_or(Json::Null, |value| json_value(&value));
        add(&format!("column {name}"), value);
    }
    if fields.is_empty() {
        Json::Null
    } else {
        Json::Object(fields)
    }
}
