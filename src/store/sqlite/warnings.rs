//! Properties of a table and of its file that `schema plan`, `schema check` and `adopt` warn of.

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use rusqlite::Connection;

use super::catalogue::Table;
use super::foreign_keys;
use super::placeholders;
use super::quote::quote;
use super::read_connection::is_in_wal_mode;
use super::soft_lock_types::queue_columns;
use super::types::ColumnType;
use crate::StoreError;
use crate::foreign_keys::warnings;
use crate::queue_columns::{QueueColumns, group_warning, null_key_warning};
use crate::template::render;

const SETTLE: &str = lease_broker_sql::sqlite::SETTLE;
const WHY: &str = lease_broker_sql::sqlite::WHY;

/// Returns one sentence for each property.
pub(super) fn all(connection: &Connection, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
    let keys = foreign_keys::read(connection, &queue.table)?;
    let mut all = warnings(queue, &keys);
    if let Some(table) = Table::read(connection, &queue.table)? {
        all.extend(group_warning(queue, &table));
        if let Ok(columns) = queue_columns(connection, queue, &table)? {
            all.extend(reused_number(connection, queue, &columns)?);
            all.extend(null_key(connection, queue, &table, &columns)?);
        }
    }
    all.extend(replaced_row(connection, queue)?);
    all.extend(journal_mode(connection)?);
    Ok(all)
}

/// Warns of a key that SQLite gives again when the broker has removed its row.
fn reused_number(
    connection: &Connection,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
) -> Result<Option<String>, StoreError> {
    let keep_for = &queue.keep_for;
    let removes =
        queue.on_complete.removes_row() || keep_for.completed.is_some() || keep_for.dead.is_some();
    let [key] = &*columns.key else {
        return Ok(None);
    };
    if !removes || key.kind != ColumnType::RowNumber {
        return Ok(None);
    }
    let counts_up = "SELECT EXISTS (SELECT 1 FROM sqlite_schema
        WHERE type = 'table' AND name = ?1 COLLATE NOCASE AND sql LIKE '%AUTOINCREMENT%')";
    let counts_up: bool = connection.query_row(counts_up, [&queue.table], |row| row.get(0))?;
    Ok((!counts_up).then(|| {
        format!(
            "the queue removes rows of table {:?}, and SQLite gives the number of a removed last row to the next new row, whose fencing \
             tokens begin again. If other systems compare the tokens of a key, declare the column {:?} as INTEGER PRIMARY KEY \
             AUTOINCREMENT",
            queue.table, key.name
        )
    }))
}

/// Warns of a constraint that replaces a row. A clause of the broker's insert would also rule the inserts in triggers of the table.
fn replaced_row(connection: &Connection, queue: &QueueSpec) -> Result<Option<String>, StoreError> {
    let replaces = "SELECT EXISTS (SELECT 1 FROM sqlite_schema
        WHERE type = 'table' AND name = ?1 COLLATE NOCASE AND sql LIKE '%ON CONFLICT REPLACE%')";
    let replaces: bool = connection.query_row(replaces, [&queue.table], |row| row.get(0))?;
    Ok(replaces.then(|| {
        format!(
            "a constraint of table {:?} is declared ON CONFLICT REPLACE: a new item with a key or a unique value that exists replaces \
             that item, also a leased one, and its fencing tokens begin again. Without the clause the new item is refused",
            queue.table
        )
    }))
}

/// Warns of rows that no claim returns, because their key has NULL.
fn null_key(
    connection: &Connection,
    queue: &QueueSpec,
    table: &Table,
    columns: &QueueColumns<ColumnType>,
) -> Result<Option<String>, StoreError> {
    let placeholders = placeholders::of_table(queue, table, columns);
    let find = render(WHY, "find_null_key", &placeholders);
    let is_found = connection.prepare(&find)?.exists([])?;
    Ok(is_found.then(|| null_key_warning(queue)))
}

/// Warns of the change of the file's journal mode.
fn journal_mode(connection: &Connection) -> Result<Option<String>, StoreError> {
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    // A file that is read alone shows another mode than it has. A plan for a file that does not exist has a database in memory.
    let has_wal = connection
        .path()
        .is_some_and(|path| is_in_wal_mode(path.as_ref()).unwrap_or(false));
    let changes = mode != "wal" && mode != "memory" && !has_wal;
    Ok(changes.then(|| {
        format!(
            "the broker changes the journal mode of the file from {mode} to WAL, for all programs: while no broker runs, a program that \
             reads the file needs the right to write to its folder. `PRAGMA journal_mode = {mode}` takes it back"
        )
    }))
}

/// Returns a sentence if SQLite accepts no deletion from the table of a queue whose completions remove rows: a foreign key refers to
/// columns without a unique index, or a trigger names a table that does not exist.
pub(super) fn deletion_problem(
    connection: &Connection,
    queue: &QueueSpec,
    table: &Table,
    columns: &QueueColumns<ColumnType>,
) -> Result<Option<String>, StoreError> {
    if !queue.on_complete.removes_row() {
        return Ok(None);
    }
    let placeholders = placeholders::of_table(queue, table, columns);
    let delete = render(SETTLE, "delete_archived", &placeholders);
    match connection.prepare(&delete).map_err(StoreError::from) {
        Ok(_) => Ok(None),
        Err(StoreError::Misconfigured(problem)) => Ok(Some(format!(
            "completions of queue {:?} remove rows of table {:?}, and {problem}",
            queue.name, queue.table
        ))),
        Err(error) => Err(error),
    }
}

/// Returns a sentence if SQLite accepts no change of the columns that the broker writes, because a trigger does not compile: it calls a
/// function that only another program defines, or names a table that does not exist.
pub(super) fn change_problem(
    connection: &Connection,
    queue: &QueueSpec,
    table: &Table,
) -> Result<Option<String>, StoreError> {
    let soft_lock = SoftLockColumn::ALL.map(|column| queue.soft_lock.name(column));
    let mirrors = queue.mirror.iter().map(|mirror| mirror.column.as_str());
    let written = soft_lock.into_iter().chain(mirrors);
    let written = written.filter(|name| table.column(name).is_some());
    let changes = written.map(|name| format!("{0} = {0}", quote(name)));
    let changes: Vec<String> = changes.collect();
    if changes.is_empty() {
        return Ok(None);
    }
    let update = format!("UPDATE {} SET {}", quote(&queue.table), changes.join(", "));
    let problem = match connection.prepare(&update).map_err(StoreError::from) {
        Ok(_) => return Ok(None),
        Err(StoreError::Misconfigured(problem)) => problem,
        Err(error) => return Err(error),
    };
    let triggers = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE ORDER BY name";
    let mut triggers = connection.prepare(triggers)?;
    let triggers = triggers.query_map([&queue.table], |row| row.get::<_, String>(0))?;
    let triggers: Vec<String> = triggers.collect::<rusqlite::Result<_>>()?;
    Ok((!triggers.is_empty()).then(|| {
        format!(
            "the broker cannot change rows of table {:?}, because one of its triggers ({}) does not compile: {problem}",
            queue.table,
            triggers.join(", ")
        )
    }))
}
