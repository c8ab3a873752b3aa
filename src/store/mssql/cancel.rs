//! Cancels leases by the keys of their items.

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_value::Value;
use serde_json::json;

use super::catalogue::Column;
use super::decode;
use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters};
use super::new_item::insert_delay;
use super::operations::MssqlOperations;
use super::parts::Parts;
use super::queue_statements::QueueStatements;
use super::settle::MAX_ERROR_UNITS;
use super::types::{self, ColumnType};
use super::utf16::cut;
use super::value_limits;
use crate::contract::ready_after;
use crate::key_text::{self, KeyKind};
use crate::{CancelResults, Cancellation, Cancelled, CancelledLease, QueueIndex, StoreError};

impl MssqlOperations {
    pub(super) async fn cancel(
        &self,
        queue: QueueIndex,
        leases: &[CancelledLease],
        cancellation: &Cancellation,
    ) -> Result<CancelResults, StoreError> {
        let queue = self.queue(queue)?;
        let mut cancelled = CancelResults {
            results: vec![Cancelled::NoRow; leases.len()],
            ..CancelResults::default()
        };
        let possible = |index: &usize| queue.can_have_key(&leases[*index].key);
        let mut parts = Parts::of((0..leases.len()).filter(possible).collect());
        while let Some(part) = parts.next() {
            let entry = |index: &usize| {
                let CancelledLease { key, fence } = &leases[*index];
                QueueStatements::cancelled_entry(*index, key, *fence)
            };
            let list = part.iter().map(entry).collect();
            let lists = ListParameters::new(vec![list, vec![entry_of(queue, cancellation)]]);
            let ended = self.cancel_part(queue, leases, &lists, &mut cancelled);
            let refusals = match parts.end(part, ended.await) {
                // Earlier batches have ended leases.
                Err(error) if !cancelled.ended.is_empty() => return Err(error.maybe_applied()),
                refusals => refusals?,
            };
            for (index, refusal) in refusals {
                cancelled.results[index] = Cancelled::Refused(refusal);
            }
        }
        Ok(cancelled)
    }

    /// Cancels the leases of a list in one batch, and sets their results.
    async fn cancel_part(
        &self,
        queue: &QueueStatements,
        leases: &[CancelledLease],
        lists: &ListParameters,
        cancelled: &mut CancelResults,
    ) -> Result<(), StoreError> {
        let mut tries = self.pool.tries().with_one_lock_wait();
        let batch = (&*queue.sql.cancel, RetrySafety::AtMostOnce);
        let results = self.run_lists(&mut tries, batch, lists).await?;
        for row in decode::result_set(&results, 0)? {
            let index = decode::request_index(row, 0, leases.len())?;
            let state = decode::state(row, 1)?;
            let ended = queue.read_ended(row, 2, state)?;
            let fence = ended.lease.fence;
            cancelled.results[index] = Cancelled::Ended { state, fence };
            cancelled.ended.push(ended);
        }
        for row in results.iter().skip(1).flatten() {
            if let Some(released) = queue.read_later(row)? {
                cancelled.released.push(released);
                continue;
            }
            let index = decode::request_index(row, 0, leases.len())?;
            let Some(state) = decode::stored_state(row, 1)? else {
                continue;
            };
            cancelled.results[index] = match (decode::integer(row, 2)?, leases[index].fence) {
                (2, _) => Cancelled::repeated_key(),
                (1, Some(fence)) => Cancelled::Repeated { state, fence },
                _ => Cancelled::NotHeld(state),
            };
        }
        Ok(())
    }
}

/// Returns the entry of the second list (cancel.sql names the fields).
pub(super) fn entry_of(queue: &QueueStatements, cancellation: &Cancellation) -> ListEntry {
    let (state, delay) = if cancellation.dead_letter {
        (State::Dead, None)
    } else {
        ready_after(cancellation.delay)
    };
    let mut entry = ListEntry::default();
    entry.insert("n", json!(state.code()));
    insert_delay(&mut entry, delay);
    entry.insert("e", json!(cut(&cancellation.reason, MAX_ERROR_UNITS)));
    entry.insert("m", json!(queue.spec.retry.max_attempts.unwrap_or(0)));
    entry
}

impl QueueStatements {
    /// Returns the entry of a lease in the first list (cancel.sql names the fields).
    pub(super) fn cancelled_entry(index: usize, key: &Key, fence: Option<i64>) -> ListEntry {
        let mut entry = ListEntry::default();
        entry.insert("i", json!(index));
        Self::insert_key(&mut entry, key);
        entry.insert("f", json!(fence));
        entry
    }

    /// Parses the text form of a key. See [`Browse::parse_key`](crate::Browse::parse_key).
    pub(super) fn parse_key(&self, text: &str) -> Result<Key, String> {
        parse_values(text, &self.key)
    }
}

/// Parses the text form of values of these columns.
///
/// # Errors
/// The reason why the columns cannot have such values.
pub(super) fn parse_values(text: &str, columns: &[Column]) -> Result<Key, String> {
    let kinds: Vec<KeyKind> = columns.iter().map(|column| kind_of(column.kind)).collect();
    let key = key_text::parse(text, &kinds)?;
    for (value, column) in key.0.iter().zip(columns) {
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
        | ColumnType::Json
        | ColumnType::Other => KeyKind::Text,
    }
}
