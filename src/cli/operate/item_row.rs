//! The row of an item in a list.

use lease_broker_proto as proto;
use serde_json::{Value as Json, json};

use crate::cli::output::{Row, proto_moment, std_duration};

/// Returns the row of an item.
pub(super) fn item_row(item: &proto::ItemSummary) -> Row {
    let age = std_duration(item.age);
    Row::default()
        .key(&item.key)
        .field("owner", known(&item.owner))
        .shown_duration("since", age)
        .data("state_time", proto_moment(item.state_time))
        .data_duration("age", age)
        .data("due_time", proto_moment(item.due_time))
        .duration("due_in", std_duration(item.due_in))
        .field("attempt", item.attempt)
        .field("fencing_token", item.fencing_token)
        .field("error", known(&item.error))
}

/// Returns a text that is absent if it is empty.
pub(super) fn known(text: &str) -> Json {
    json!((!text.is_empty()).then_some(text))
}
