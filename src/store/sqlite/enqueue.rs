//! Adds items to a queue.

use lease_broker_model::key::Key;
use lease_broker_value::Value;
use rusqlite::Statement;
use rusqlite::types::Value as SqlValue;

use super::error::broken_constraint;
use super::pause;
use super::queue_statements::QueueStatements;
use super::quote::{literal, quote};
use super::row_error::RowError;
use super::statement::{bind, borrowed};
use super::write_context::WriteContext;
use crate::contract::{due_after, ready_after};
use crate::{NewItem, Problem, ProblemKind, QueueIndex, Refusal, Rejection, Settled, StoreError};

/// The error of one request in a list.
pub(super) enum ItemError {
    /// The request breaks a rule of the table: a column, a value or a constraint.
    Rejected {
        column: Option<String>,
        problem: Problem,
    },
    /// The store failed.
    Store(StoreError),
}

impl ItemError {
    /// Turns the error of a settlement into its result. `table` is the table that refused a change. `follow_up` is the
    /// index of the refused follow-up; `None`: the change of the item's row was refused.
    pub(super) fn refused(
        self,
        table: &str,
        follow_up: Option<usize>,
    ) -> Result<Settled, StoreError> {
        let (column, problem) = match self {
            Self::Store(error) => return Err(error),
            // SQLite's message does not always name the table.
            Self::Rejected { column, problem } => {
                let text = format!("table {table:?}: {problem}");
                (column, Problem { text, ..problem })
            }
        };
        Ok(Settled::Refused(match follow_up {
            Some(index) => Refusal::of_follow_up(index, column.as_deref(), problem),
            None => Refusal::of_row(problem),
        }))
    }
}

impl From<RowError> for ItemError {
    fn from(error: RowError) -> Self {
        match error {
            RowError::Refused(problem) => Self::Rejected {
                column: None,
                problem,
            },
            RowError::Store(error) => Self::Store(error),
        }
    }
}

impl From<rusqlite::Error> for ItemError {
    fn from(error: rusqlite::Error) -> Self {
        match broken_constraint(&error) {
            Some(problem) => Self::Rejected {
                column: None,
                problem,
            },
            None => Self::Store(error.into()),
        }
    }
}

/// Adds items. See [`Leases::enqueue`](crate::Leases::enqueue).
///
/// If an item is refused, the others are still tried, so that the error has all refused items. The caller then undoes the
/// changes.
pub(super) fn enqueue(
    context: &WriteContext,
    queue: QueueIndex,
    items: &[NewItem],
) -> Result<Vec<Key>, StoreError> {
    let now = context.now();
    pause::refuse_items(&context.connection, &context.queue(queue)?.spec.name, now)?;
    let mut keys = Vec::with_capacity(items.len());
    let mut rejections = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match insert(context, queue, item, now) {
            Ok(key) => keys.push(key),
            Err(ItemError::Store(error)) => return Err(error),
            Err(ItemError::Rejected { column, problem }) => {
                rejections.push(Rejection::of_item(index, column, problem));
                // A trigger has rolled the transaction back. Further inserts would be committed one by one.
                if context.connection.is_autocommit() {
                    break;
                }
            }
        }
    }
    Rejection::of_all(rejections)?;
    Ok(keys)
}

/// Adds one item and returns its key.
pub(super) fn insert(
    context: &WriteContext,
    index: QueueIndex,
    item: &NewItem,
    now: i64,
) -> Result<Key, ItemError> {
    let queue = context.queue(index).map_err(ItemError::Store)?;
    let values = queue
        .encode_item(item)
        .map_err(|(column, problem)| ItemError::Rejected {
            column: Some(column),
            problem,
        })?;
    let inserted = insert_row(context, queue, index, item, &values, now);
    let Some(key) = inserted? else {
        return Err(ItemError::Rejected {
            column: None,
            problem: Problem::new(
                ProblemKind::Trigger,
                "a trigger of the table ignores the insert",
            ),
        });
    };
    match key.0.iter().position(|value| *value == Value::Null) {
        None => Ok(key),
        Some(column) => Err(ItemError::Rejected {
            column: Some(queue.key[column].name.clone()),
            problem: Problem::unfit("the key of the item is NULL; a lease needs a key"),
        }),
    }
}

/// Returns the error of an insert.
fn insert_error(
    context: &WriteContext,
    queue: &QueueStatements,
    statement: &Statement<'_>,
    error: &rusqlite::Error,
) -> ItemError {
    if is_full(error) && keys_are_used_up(context, queue) {
        let text = format!(
            "the table has no key left to give, because it has given {}; delete that row and the table's row in \
             sqlite_sequence",
            i64::MAX
        );
        return ItemError::Rejected {
            column: None,
            problem: Problem::new(ProblemKind::Other, text),
        };
    }
    match RowError::new(&context.connection, statement, error) {
        RowError::Refused(problem) => ItemError::Rejected {
            column: queue.refused_column(&problem.text),
            problem,
        },
        RowError::Store(error) => ItemError::Store(error),
    }
}

/// Returns whether the error is that of a full disk. SQLite has the same error for a table whose keys are used up.
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

/// Returns whether the table cannot count its key up any more: it has, or once had, a row with the largest rowid.
fn keys_are_used_up(context: &WriteContext, queue: &QueueStatements) -> bool {
    let highest = |sql: &str| -> Option<i64> {
        let mut statement = context.connection.prepare(sql).ok()?;
        statement.query_row([], |row| row.get(0)).ok()?
    };
    let table = quote(&queue.spec.table);
    let text = literal(&Value::Text(queue.spec.table.clone()));
    let given = format!("SELECT seq FROM sqlite_sequence WHERE name = {text} COLLATE NOCASE");
    let present = format!("SELECT max(rowid) FROM {table}");
    [given, present]
        .iter()
        .any(|sql| highest(sql) == Some(i64::MAX))
}

/// Inserts the row and returns its key, or `None` if no row was inserted.
fn insert_row(
    context: &WriteContext,
    queue: &QueueStatements,
    index: QueueIndex,
    item: &NewItem,
    values: &[SqlValue],
    now: i64,
) -> Result<Option<Key>, ItemError> {
    let sql = context.inserts.get(index.0, queue, item);
    let mut statement = context.connection.prepare_cached(&sql)?;
    let (state, delay) = ready_after(item.delay);
    let due = delay.map(|delay| due_after(now, delay));
    bind(
        &mut statement,
        1,
        &[&state.code(), &now, &due, &item.trace_parent],
    )?;
    for (parameter, value) in (5..).zip(values) {
        statement.raw_bind_parameter(parameter, borrowed(value))?;
    }
    let inserted = run_insert(context, queue, &mut statement);
    inserted.map_err(|error| insert_error(context, queue, &statement, &error))
}

/// Runs the statement to its end, and returns the key of the new row.
fn run_insert(
    context: &WriteContext,
    queue: &QueueStatements,
    statement: &mut Statement<'_>,
) -> rusqlite::Result<Option<Key>> {
    if queue.key_is_rowid() {
        let inserted = statement.raw_execute()? > 0;
        let rowid = Value::Int(context.connection.last_insert_rowid());
        return Ok(inserted.then(|| Key(Box::new([rowid]))));
    }
    let mut rows = statement.raw_query();
    let key = rows.next()?.map(|row| queue.read_key(row)).transpose()?;
    while rows.next()?.is_some() {}
    Ok(key)
}
