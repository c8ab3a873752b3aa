//! The environment variables of a command: those of the item, and those by which the command can call the broker.

use lease_broker_client::{ColumnError, HandlerError, Item, Value};
use tokio::process::Command;

use super::settings::{Settings, Variables};
use crate::cli::output::json_value;
use crate::cli::similar;

/// The prefix of the variables that only this program sets.
pub(super) const RESERVED: &str = "LEASE_BROKER_";
/// The variable of the trace context. It is not set for an item without one.
pub(super) const TRACE_PARENT: &str = "TRACEPARENT";

/// Sets the variables of a command that has inherited those of this process.
///
/// # Errors
/// The item has no such column. Then no other item of the queue has it, and the worker ends.
pub(super) fn set(
    command: &mut Command,
    settings: &Settings,
    item: &Item,
) -> Result<(), HandlerError> {
    for (name, _) in std::env::vars_os() {
        // They can contain passwords, and settings of another broker.
        if name.to_string_lossy().starts_with(RESERVED) {
            command.env_remove(name);
        }
    }
    let Variables { broker, columns } = &settings.variables;
    for (column, name) in columns {
        let value = item.value(column).map_err(|error| match error {
            ColumnError::Missing { known, .. } => settings
                .mistake
                .set(missing(settings, &known, column, name)),
            error => error.into(),
        })?;
        match text_of(value) {
            Some(text) => command.env(name, text),
            None => command.env_remove(name),
        };
    }
    match item.trace_parent() {
        "" => command.env_remove(TRACE_PARENT),
        trace_parent => command.env(TRACE_PARENT, trace_parent),
    };
    command
        .envs(broker.iter().map(|(name, value)| (name, value)))
        .env("LEASE_BROKER_ITEM_QUEUE", &settings.queue)
        .env("LEASE_BROKER_ITEM_KEY", item.key())
        .env("LEASE_BROKER_ITEM_ATTEMPT", item.attempt().to_string())
        .env(
            "LEASE_BROKER_ITEM_MAX_ATTEMPTS",
            item.max_attempts().to_string(),
        )
        .env(
            "LEASE_BROKER_ITEM_FENCING_TOKEN",
            item.fencing_token().to_string(),
        )
        .env("LEASE_BROKER_ITEM_WORKER_ID", &settings.worker_id);
    Ok(())
}

/// Returns the mistake of a column that the queue does not have.
fn missing(settings: &Settings, known: &[String], column: &str, variable: &str) -> String {
    let queue = &settings.queue;
    let hint = match similar::most_similar(column, known.iter().map(String::as_str)) {
        Some(name) => format!("; did you mean {name}?"),
        None => format!("; it has {}", known.join(", ")),
    };
    format!("--env {column}={variable}: queue {queue:?} has no column {column:?}{hint}")
}

/// Returns a value as the text of an environment variable. `None`: NULL.
fn text_of(value: &Value) -> Option<String> {
    match json_value(value) {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}
