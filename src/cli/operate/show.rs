//! `show`: shows one item.

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_proto as proto;
use lease_broker_proto::UnknownKind;
use serde_json::{Map, json};

use super::complete;
use super::item_row::known;
use super::place_args::{PlaceArgs, with_place};
use crate::cli::CommandError;
use crate::cli::output::{Row, json_value, proto_moment, std_duration};
use crate::grpc::Words as _;

/// Show one item: its columns, its lease, its last error and its trace
///
/// Also says why no worker gets it. The command `why` says only this, in one paragraph.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Fields of --output json and csv: queue; key; state; owner; state_time and age_seconds; due_time and due_in_seconds; attempt; \
fencing_token; error; checkpoint_bytes (null: there is no checkpoint); trace_id and trace_parent; columns; causes.

Examples:
  lease-broker show rainfall 4711
  lease-broker show orders '[\"de\",42]' --output json

The exit code is 1 if no row has the key."))]
pub(in crate::cli) struct Show {
    /// Queue of the item
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    // Not `key`, which is the credential of that name.
    /// Key of the item, as `list` and `claim` print it
    #[arg(value_name = "KEY", allow_hyphen_values = true, add = ArgValueCandidates::new(complete::keys))]
    item_key: String,
    #[command(flatten)]
    place: PlaceArgs,
}

impl Show {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.look(Some(&self.queue)).await?;
        let request = proto::GetItemRequest {
            queue: self.queue.clone(),
            key: self.item_key,
        };
        let item = admin.get_item(request).await?;
        self.place.output().print_record(&record(&self.queue, item));
        Ok(())
    }
}

/// Returns the fields of an item.
pub(super) fn record(queue: &str, found: proto::GetItemResponse) -> Row {
    let item = found.item.unwrap_or_default();
    let mut columns = Map::new();
    for (name, value) in found.columns {
        let value = match value.try_into() {
            Ok(value) => json_value(&value),
            Err(UnknownKind) => json!("(a value of a newer service)"),
        };
        columns.insert(name, value);
    }
    // The W3C form of a trace context: version, trace id, span id, flags.
    let trace_id = found.trace_parent.split('-').nth(1);
    let age = std_duration(item.age);
    let mut row = Row::default()
        .field("queue", queue)
        .key(&item.key)
        .field("state", item.state().known_word())
        .field("owner", known(&item.owner))
        .field("state_time", proto_moment(item.state_time))
        .duration("age", age)
        .field("due_time", proto_moment(item.due_time))
        .duration("due_in", std_duration(item.due_in))
        .field("attempt", item.attempt)
        .field("fencing_token", item.fencing_token)
        .field("error", known(&item.error))
        .field("checkpoint_bytes", json!(found.checkpoint_bytes))
        .field("trace_id", json!(trace_id))
        .data("trace_parent", known(&found.trace_parent));
    for (name, value) in &columns {
        row = row.shown_value(&format!("column {name}"), value);
    }
    for cause in &found.causes {
        row = row.shown("cause", cause.clone());
    }
    row.data("columns", columns).data("causes", found.causes)
}
