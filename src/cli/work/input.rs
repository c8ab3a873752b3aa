//! The item as the command reads it on standard input: one line of JSON.

use lease_broker_client::{HandlerError, Item};
use lease_broker_model::key::hex;
use serde_json::{Map, Value as Json, json};

use crate::cli::output::{json_value, seconds};

/// The largest line that a command gets, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Returns the line, which ends with a line feed.
pub(super) fn of_item(item: &Item) -> Result<Vec<u8>, HandlerError> {
    let columns: Map<String, Json> = item
        .columns()?
        .iter()
        .map(|(name, value)| (name.clone(), json_value(value)))
        .collect();
    let line = json!({
        "key": item.key(),
        "attempt": item.attempt(),
        "fencing_token": item.fencing_token(),
        "time_left_seconds": seconds(Some(item.time_left())),
        "columns": columns,
        "checkpoint": item.checkpoint().map(hex),
        "trace_parent": item.trace_parent(),
    });
    let mut line = line.to_string().into_bytes();
    line.push(b'\n');
    if line.len() > MAX_BYTES {
        let bytes = line.len();
        return Err(HandlerError::new(format!(
            "the item has {bytes} bytes as JSON; a command gets at most {MAX_BYTES}"
        )));
    }
    Ok(line)
}
