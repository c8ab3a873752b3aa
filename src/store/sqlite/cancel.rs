//! Cancels leases by the keys of their items.

use rusqlite::OptionalExtension as _;

use super::queue_statements::QueueStatements;
use super::statement::{bind, bind_key};
use super::types::ColumnType;
use super::writer::WriteContext;
use crate::item_state::State;
use crate::store::key_text::{self, KeyKind};
use crate::store::millis::millis_rounded_up;
use crate::store::{Cancellation, Cancelled, QueueIndex, StoreError};
use crate::value::Key;

/// Cancels the leases on the rows with these keys. See [`Store::cancel`](crate::store::Store::cancel).
pub(super) fn cancel(
    context: &WriteContext,
    queue: QueueIndex,
    keys: &[Key],
    cancellation: &Cancellation,
) -> Result<Vec<Cancelled>, StoreError> {
    let queue = context.queue(queue)?;
    let now = context.now();
    let mut read_item = context.connection.prepare_cached(&queue.sql.read_item)?;
    let mut cancel = context.connection.prepare_cached(&queue.sql.cancel)?;
    keys.iter()
        .map(|key| {
            if key.0.len() != queue.key_len {
                return Ok(Cancelled::NO_ROW);
            }
            bind_key(&mut read_item, key)?;
            let row = {
                let mut rows = read_item.raw_query();
                let row = rows.next().optional()?.flatten();
                row.map(|row| Ok::<_, rusqlite::Error>((row.get(0)?, row.get(1)?)))
                    .transpose()?
            };
            let Some((code, attempts)) = row else {
                return Ok(Cancelled::NO_ROW);
            };
            let attempts: u32 = attempts;
            let state = State::from_code(code);
            if state != Some(State::Leased) {
                let cancelled = false;
                return Ok(Cancelled { cancelled, state });
            }
            let is_exhausted = queue.spec.retry.is_exhausted(attempts);
            let (state, due) = if cancellation.dead_letter || is_exhausted {
                (State::Dead, None)
            } else if cancellation.delay.is_zero() {
                (State::Ready, None)
            } else {
                let due = now.saturating_add(millis_rounded_up(cancellation.delay));
                (State::Delayed, Some(due))
            };
            bind_key(&mut cancel, key)?;
            bind(
                &mut cancel,
                4,
                &[&due, &now, &state.code(), &cancellation.reason],
            )?;
            Ok(Cancelled {
                cancelled: cancel.raw_execute()? > 0,
                state: Some(state),
            })
        })
        .collect()
}

impl QueueStatements {
    /// Parses the text form of a key. See [`Store::parse_key`](crate::store::Store::parse_key).
    pub(super) fn parse_key(&self, text: &str) -> Result<Key, String> {
        let kinds: Vec<KeyKind> = self.key_types.iter().map(|kind| kind_of(*kind)).collect();
        key_text::parse(text, &kinds)
    }
}

/// Returns the kind of the values that a key column of this type usually has. A column of this store can also have values of other
/// types. Rows with such keys cannot be named by the text of their key.
fn kind_of(column: ColumnType) -> KeyKind {
    match column {
        ColumnType::Integer | ColumnType::Bool => KeyKind::Integer,
        ColumnType::Text => KeyKind::Text,
        ColumnType::Blob => KeyKind::Bytes,
        ColumnType::Real => KeyKind::Double,
        ColumnType::Numeric => KeyKind::Any,
    }
}
