//! Cancels leases by the keys of their items.

use std::collections::HashSet;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;

use super::held_lease::HELD_COLUMNS;
use super::left_out::LeftOut;
use super::queue_statements::QueueStatements;
use super::row_error::change_fit_row;
use super::runs::{self, Run};
use super::soft_lock_value::integer;
use super::statement::{bind, bind_key};
use super::types::ColumnType;
use super::undone_by::UndoneBy;
use super::write_context::WriteContext;
use crate::key_text::{self, KeyKind};
use crate::{
    CancelResults, Cancellation, Cancelled, CancelledLease, Operation, QueueIndex, Refusal,
    RowOperation, RowOutcome, StoreError, step,
};

/// Cancels leases. See [`Leases::cancel`](crate::Leases::cancel). Leases that were claimed after `operation`
/// was stored stay.
pub(super) fn cancel(
    context: &WriteContext,
    queue: QueueIndex,
    leases: &[CancelledLease],
    cancellation: &Cancellation,
    operation: Option<&Operation>,
    left_out: &LeftOut,
) -> Result<CancelResults, StoreError> {
    let queue = context.queue(queue)?;
    let now = context.now();
    let mut read_item = context.connection.prepare_cached(&queue.sql.read_item)?;
    let mut cancel = context.connection.prepare_cached(&queue.sql.cancel)?;
    let mut seen = HashSet::new();
    let mut cancelled = CancelResults {
        results: vec![Cancelled::NoRow; leases.len()],
        ..CancelResults::default()
    };
    for index in in_order_of_runs(context, queue, leases)? {
        let CancelledLease { key, fence } = &leases[index];
        if key.0.len() != queue.key.len() {
            continue;
        }
        bind_key(&mut read_item, key)?;
        let mut rows = read_item.raw_query();
        let Some(row) = rows.next()? else {
            continue;
        };
        let code = integer(row, queue.key.len() + HELD_COLUMNS)?;
        let Some(state) = code.and_then(State::from_code) else {
            // Another program wrote a value that is no state. The row is no item.
            continue;
        };
        let mut ended = queue.read_ended(row, now, state)?;
        drop(rows);
        // Several texts can be the key of one row, such as `1` and `1.0`.
        if !seen.insert(format!("{:?}", ended.lease.key)) {
            cancelled.results[index] = Cancelled::repeated_key();
            continue;
        }
        if operation.is_some_and(|operation| operation.was_stored_before(ended.claim_time, now)) {
            cancelled.results[index] = Cancelled::NotHeld(state);
            continue;
        }
        let before = ended.row(state);
        let operation = RowOperation::Cancel {
            fence: *fence,
            delay: cancellation.delay,
            dead_letter: cancellation.dead_letter,
        };
        let (next, outcome) = step(&queue.spec, Some(&before), now, &operation);
        let RowOutcome::Cancelled(result) = outcome else {
            continue;
        };
        if let (Cancelled::Ended { state, .. }, Some(next)) = (&result, next) {
            let run = Run::find(context, queue, key)?;
            let released =
                left_out.change(context, &ended.lease.key, UndoneBy::Savepoint, || {
                    bind_key(&mut cancel, key)?;
                    let reason = &cancellation.reason;
                    bind(&mut cancel, 4, &[&next.due, &now, &state.code(), reason])?;
                    change_fit_row(&context.connection, &mut cancel)?;
                    runs::release(context, queue, run.map(Run::later).unwrap_or_default())
                })?;
            match released {
                Ok(released) => cancelled.released.extend(released),
                Err(problem) => {
                    cancelled.results[index] = Cancelled::Refused(Refusal::of_row(problem));
                    continue;
                }
            }
            ended.state = *state;
            cancelled.ended.push(ended);
        }
        cancelled.results[index] = result;
    }
    Ok(cancelled)
}

/// Returns the indexes of leases, each before those of the later items of its run. The cancellation of a lease releases these.
fn in_order_of_runs(
    context: &WriteContext,
    queue: &QueueStatements,
    leases: &[CancelledLease],
) -> Result<Vec<usize>, StoreError> {
    let mut indexes: Vec<usize> = (0..leases.len()).collect();
    if queue.sql.runs.is_some() {
        let mut places = Vec::with_capacity(leases.len());
        for CancelledLease { key, .. } in leases {
            let run = if key.0.len() == queue.key.len() {
                Run::find(context, queue, key)?
            } else {
                None
            };
            places.push(run.map_or(0, |run| run.place()));
        }
        indexes.sort_by_key(|index| places[*index]);
    }
    Ok(indexes)
}

impl QueueStatements {
    /// Parses the text form of a key. See [`Browse::parse_key`](crate::Browse::parse_key).
    pub(super) fn parse_key(&self, text: &str) -> Result<Key, String> {
        let kinds: Vec<KeyKind> = self.key.iter().map(|column| kind_of(column.kind)).collect();
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
