//! New items.

use rusqlite::types::Value as Sql;

use super::claim::millis;
use super::error::broken_constraint;
use super::statement::{bind, borrowed};
use super::table::QueueTable;
use super::writer::Session;
use crate::item_state::State;
use crate::store::{NewItem, QueueIndex, Rejection, StoreError};
use crate::value::{Key, Value};

/// Why one request of a list can't be applied.
pub(super) enum Refusal {
    /// A value or a constraint is to blame.
    Row {
        column: Option<String>,
        problem: String,
    },
    Store(StoreError),
}

impl Refusal {
    /// Turns it into the whole operation's error, which names the request's place.
    pub(super) fn at(self, item: usize, follow_up: Option<usize>) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Row { column, problem } => StoreError::Rejected(Rejection {
                item,
                follow_up,
                column,
                problem,
            }),
        }
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        match broken_constraint(&error) {
            Some(problem) => Self::Row {
                column: None,
                problem,
            },
            None => Self::Store(error.into()),
        }
    }
}

pub(super) fn enqueue(
    session: &Session,
    queue: QueueIndex,
    items: &[NewItem],
) -> Result<Vec<Key>, StoreError> {
    let now = session.now();
    items
        .iter()
        .enumerate()
        .map(|(at, item)| insert(session, queue, item, now).map_err(|refusal| refusal.at(at, None)))
        .collect()
}

/// Adds one item and returns its key.
pub(super) fn insert(
    session: &Session,
    queue: QueueIndex,
    item: &NewItem,
    now: i64,
) -> Result<Key, Refusal> {
    let table = session.queue(queue).map_err(Refusal::Store)?;
    let values = table
        .accept(item)
        .map_err(|(column, problem)| Refusal::Row {
            column: Some(column),
            problem,
        })?;
    let inserted = insert_row(session, table, queue, item, &values, now);
    let key = inserted.map_err(|error| match broken_constraint(&error) {
        Some(problem) => Refusal::Row {
            column: table.blamed(&problem),
            problem,
        },
        None => Refusal::Store(error.into()),
    })?;
    let Some(key) = key else {
        return Err(Refusal::Row {
            column: None,
            problem: "a trigger of the table ignores the insert".to_owned(),
        });
    };
    match key.0.iter().position(|value| *value == Value::Null) {
        None => Ok(key),
        Some(at) => Err(Refusal::Row {
            column: Some(table.key[at].clone()),
            problem: "the item has no key: nobody could lease it".to_owned(),
        }),
    }
}

/// Returns the new row's key; none if there is no new row.
fn insert_row(
    session: &Session,
    table: &QueueTable,
    queue: QueueIndex,
    item: &NewItem,
    values: &[Sql],
    now: i64,
) -> rusqlite::Result<Option<Key>> {
    let sql = session.inserts.get(queue.0, table, item);
    let mut statement = session.connection.prepare_cached(&sql)?;
    let (state, due) = if item.delay.is_zero() {
        (State::Ready, None)
    } else {
        (State::Delayed, Some(now.saturating_add(millis(item.delay))))
    };
    bind(
        &mut statement,
        1,
        &[&state.code(), &now, &due, &item.trace_parent],
    )?;
    for (at, value) in (5..).zip(values) {
        statement.raw_bind_parameter(at, borrowed(value))?;
    }
    let mut rows = statement.raw_query();
    let key = rows.next()?.map(|row| table.read_key(row)).transpose()?;
    while rows.next()?.is_some() {}
    Ok(key)
}
