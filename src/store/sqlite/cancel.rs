//! Cancels leases by the keys of their items.

use std::collections::HashSet;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;

use super::error::rejection;
use super::held_lease::HELD_COLUMNS;
use super::queue_statements::QueueStatements;
use super::runs::{self, Run};
use super::soft_lock_value::integer;
use super::statement::{bind, bind_key};
use super::types::ColumnType;
use super::writer::WriteContext;
use crate::key_text::{self, KeyKind};
use crate::{
    CancelResults, Cancellation, Cancelled, CancelledLease, QueueIndex, Refusal, RowOperation,
    RowOutcome, StoreError, step,
};

/// Cancels leases. See [`Leases::cancel`](crate::Leases::cancel). With `not_after`, leases that were claimed later stay.
pub(super) fn cancel(
    context: &WriteContext,
    queue: QueueIndex,
    leases: &[CancelledLease],
    cancellation: &Cancellation,
    not_after: Option<i64>,
) -> Result<CancelResults, StoreError> {
    let queue = context.queue(queue)?;
    let now = context.now();
    let mut read_item = context.connection.prepare_cached(&queue.sql.read_item)?;
    let mut cancel = context.connection.prepare_cached(&queue.sql.cancel)?;
    let mut cancelled = CancelResults::default();
    let mut later = Vec::new();
    let mut seen = HashSet::new();
    for CancelledLease { key, fence } in leases {
        let mut result = Cancelled::NoRow;
        if key.0.len() == queue.key_len {
            bind_key(&mut read_item, key)?;
            let mut rows = read_item.raw_query();
            if let Some(row) = rows.next()? {
                let code = integer(row, queue.key_len + HELD_COLUMNS)?;
                let Some(state) = code.and_then(State::from_code) else {
                    // Another program wrote a value that is no state. The row is no item.
                    cancelled.results.push(Cancelled::NoRow);
                    continue;
                };
                let mut ended = queue.read_ended(row, now, state)?;
                // Several texts can be the key of one row, such as `1` and `1.0`.
                if !seen.insert(format!("{:?}", ended.lease.key)) {
                    let problem = "another entry of the list has this key".to_owned();
                    let refusal = Refusal::of_field("key", problem);
                    cancelled.results.push(Cancelled::Refused(refusal));
                    continue;
                }
                if not_after.is_some_and(|time| ended.claim_time > time) {
                    cancelled.results.push(Cancelled::NotHeld(state));
                    continue;
                }
                let before = ended.row(state);
                let operation = RowOperation::Cancel {
                    fence: *fence,
                    delay: cancellation.delay,
                    dead_letter: cancellation.dead_letter,
                };
                let (next, outcome) = step(&queue.spec, Some(&before), now, &operation);
                if let RowOutcome::Cancelled(cancelled) = outcome {
                    result = cancelled;
                }
                if let (Cancelled::Ended { state, .. }, Some(next)) = (&result, next) {
                    if let Some(run) = Run::find(context, queue, key)? {
                        later.extend(run.later());
                    }
                    bind_key(&mut cancel, key)?;
                    let reason = &cancellation.reason;
                    bind(&mut cancel, 4, &[&next.due, &now, &state.code(), reason])?;
                    cancel.raw_execute().map_err(rejection)?;
                    ended.state = *state;
                    cancelled.ended.push(ended);
                }
            }
        }
        cancelled.results.push(result);
    }
    // Those that the list names are cancelled already.
    cancelled.released = runs::release(context, queue, later)?;
    Ok(cancelled)
}

impl QueueStatements {
    /// Parses the text form of a key. See [`Inspect::parse_key`](crate::Inspect::parse_key).
    pub(super) fn parse_key(&self, text: &str) -> Result<Key, String> {
        let kinds: Vec<KeyKind> = self.key_types.iter().map(|kind| kind_of(*kind)).collect();
        key_text::parse(text, &kinds)
    }
}

/// Returns the kinds of values that the text of a key in a column of this type can be, the usual one first. Two rows can have keys
/// with the same text, such as bytes in a column of texts. The text names the row with the first kind.
pub(super) fn kind_of(column: ColumnType) -> KeyKind {
    match column {
        ColumnType::RowNumber => KeyKind::Integer,
        ColumnType::Text => KeyKind::Text,
        ColumnType::Blob => KeyKind::BytesOrNumber,
        ColumnType::Any => KeyKind::NumberOrBytes,
        // The column converts a text that looks like a number.
        ColumnType::Integer
        | ColumnType::Bool
        | ColumnType::Real
        | ColumnType::Decimal { .. }
        | ColumnType::Timestamp
        | ColumnType::Date
        | ColumnType::Time
        | ColumnType::Uuid
        | ColumnType::Numeric => KeyKind::Any,
    }
}
