//! Cancels leases by the keys of their items.

use std::collections::HashMap;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_value::Value;
use serde_json::json;

use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters};
use super::new_item::insert_delay;
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use super::settle::MAX_ERROR_UNITS;
use super::types::{self, ColumnType};
use super::utf16::cut;
use super::value_limits;
use crate::key_text::{self, KeyKind};
use crate::{CancelResults, Cancellation, Cancelled, QueueIndex, StoreError};

impl MssqlOperations {
    pub(super) async fn cancel(
        &self,
        queue: QueueIndex,
        keys: &[Key],
        cancellation: &Cancellation,
    ) -> Result<CancelResults, StoreError> {
        let queue = self.queue(queue)?;
        let parameters = ListParameters::new(vec![
            queue.key_entries(keys),
            vec![entry_of(queue, cancellation)],
        ]);
        let results = self
            .pool
            .query(
                &queue.sql.cancel,
                &parameters.parameters(),
                RetrySafety::AtMostOnce,
            )
            .await?;
        let mut cancelled = CancelResults {
            results: vec![Cancelled::NO_ROW; keys.len()],
            ended: Vec::new(),
        };
        for row in decode::result_set(&results, 0)? {
            let index = decode::request_index(row, 0, keys.len())?;
            let state = decode::state(row, 1)?;
            cancelled.ended.push(queue.read_ended(row, 2, state)?);
            cancelled.results[index] = Cancelled {
                cancelled: true,
                state: Some(state),
            };
        }
        for row in results.get(1).into_iter().flatten() {
            let index = decode::request_index(row, 0, keys.len())?;
            cancelled.results[index].state = Some(decode::state(row, 1)?);
        }
        // A key that is in the list twice was sent only once.
        let mut first_index = HashMap::new();
        for (index, key) in keys.iter().enumerate() {
            let first = *first_index.entry(key.to_string()).or_insert(index);
            if first != index {
                cancelled.results[index].state = cancelled.results[first].state;
            }
        }
        Ok(cancelled)
    }
}

/// Returns the entry of the second list (cancel.sql names the fields).
fn entry_of(queue: &QueueStatements, cancellation: &Cancellation) -> ListEntry {
    let delay = cancellation.delay;
    let (state, delay) = match cancellation.dead_letter {
        true => (State::Dead, None),
        false if delay.is_zero() => (State::Ready, None),
        false => (State::Delayed, Some(delay)),
    };
    let mut entry = ListEntry::default();
    entry.insert("n", json!(state.code()));
    insert_delay(&mut entry, delay);
    entry.insert("e", json!(cut(&cancellation.reason, MAX_ERROR_UNITS)));
    entry.insert("m", json!(queue.spec.retry.max_attempts.unwrap_or(0)));
    entry
}

impl QueueStatements {
    /// Parses the text form of a key. See [`Inspect::parse_key`](crate::Inspect::parse_key).
    pub(super) fn parse_key(&self, text: &str) -> Result<Key, String> {
        let kinds: Vec<KeyKind> = self.key.iter().map(|column| kind_of(column.kind)).collect();
        let key = key_text::parse(text, &kinds)?;
        for (value, column) in key.0.iter().zip(&self.key) {
            if !column.kind.can_return(value) {
                return Err(format!("{text:?} is out of the range of {}", column.name));
            }
            value_limits::check(value, column)?;
            if let (Value::Text(_), true) = (value, column.kind != ColumnType::Other) {
                types::encode(value, column.kind)?;
            }
        }
        Ok(key)
    }
}

fn kind_of(column: ColumnType) -> KeyKind {
    match column {
        ColumnType::Int(..) => KeyKind::Integer,
        ColumnType::Bool => KeyKind::Bool,
        ColumnType::Float => KeyKind::Double,
        ColumnType::Decimal | ColumnType::Money => KeyKind::Decimal,
        ColumnType::DateTime | ColumnType::DateTimeOffset => KeyKind::Timestamp,
        ColumnType::Binary | ColumnType::RowVersion => KeyKind::Bytes,
        ColumnType::Text
        | ColumnType::Date
        | ColumnType::Time
        | ColumnType::Guid
        | ColumnType::Xml
        | ColumnType::Other => KeyKind::Text,
    }
}
