//! Schema changes on a `SQLite` file: what a queue's table lacks, and the statements that add it.

use std::path::Path;

use rusqlite::Connection;

use super::catalogue::Table;
use super::connection;
use super::mirror::{literal, mirrors};
use super::placeholders::{INDEXES, QueueColumns, index_name, queue_placeholders};
use super::quote::{quote, quote_all};
use crate::item_state::State;
use crate::queue::{OnComplete, QueueSpec, SoftLockColumn};
use crate::store::StoreError;
use crate::store::schema::{Schema, Step, no_table, own_columns, refuse_managed};
use crate::store::template::{Placeholders, render};

const ADOPT: &str = include_str!("../../../sql/sqlite/adopt.sql");

/// Plans and makes schema changes over a connection of its own.
pub struct SqliteSchema {
    connection: Connection,
}

impl SqliteSchema {
    /// Opens the file; a file that does not exist is made.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            connection: connection::open(path)?,
        })
    }

    /// Opens the file to plan and check only; where there is none, for the file that would be made.
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        let connection = if path.exists() {
            connection::open_to_read(path)?
        } else {
            Connection::open_in_memory()?
        };
        Ok(Self { connection })
    }

    pub(super) fn over(connection: Connection) -> Self {
        Self { connection }
    }

    pub(super) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Runs `change` in one transaction that holds the write lock from its start.
    pub(super) fn transaction(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let result = change(self);
        let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
        self.connection.execute_batch(end)?;
        result
    }

    /// Returns the columns that `table` and its archive share, in the order of the queue's table.
    pub(super) fn archive_columns(
        connection: &Connection,
        queue: &QueueSpec,
        shape: &QueueColumns,
    ) -> Result<Vec<String>, StoreError> {
        let OnComplete::Archive(archive) = &queue.on_complete else {
            return Ok(Vec::new());
        };
        let Some(table) = Table::read(connection, archive)? else {
            return Ok(Vec::new());
        };
        let own = shape.own.iter().map(|(name, _)| name.as_str());
        let soft_lock = SoftLockColumn::ALL.map(|column| queue.soft_lock.name(column));
        Ok(own
            .chain(soft_lock)
            .filter(|name| table.column(name).is_some())
            .map(str::to_owned)
            .collect())
    }
}

impl Schema for SqliteSchema {
    fn plan(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError> {
        let mut steps = Vec::new();
        let mut future = None;
        if Table::read(&self.connection, &queue.table)?.is_none() {
            let create = create(queue).ok_or_else(|| no_table(queue))?;
            // The indexes of a table that does not exist yet: planned over the table as it will be.
            let connection = Connection::open_in_memory()?;
            connection.execute_batch(&create.sql)?;
            future = Some(connection);
            steps.push(create);
        }
        let connection = future.as_ref().unwrap_or(&self.connection);
        let table = Table::read(connection, &queue.table)?.ok_or_else(|| no_table(queue))?;
        let shape = QueueColumns::new(queue, &table)
            .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
        steps.extend(columns(queue, &table, &shape));
        steps.extend(backfills(connection, queue, &table, &shape)?);
        steps.extend(indexes(queue, &table, &shape));
        if let OnComplete::Archive(name) = &queue.on_complete
            && Table::read(&self.connection, name)?.is_none()
        {
            steps.push(archive(queue, name, &shape));
        }
        Ok(steps)
    }

    fn apply(&mut self, step: &Step, progress: &mut dyn FnMut(u64)) -> Result<(), StoreError> {
        if !step.until_no_rows {
            self.connection.execute_batch(&step.sql)?;
            return Ok(());
        }
        let mut changed = 0;
        loop {
            match self.connection.execute(&step.sql, [])? {
                0 => return Ok(()),
                rows => {
                    changed += rows as u64;
                    progress(changed);
                }
            }
        }
    }

    fn plan_removal(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError> {
        refuse_managed(queue)?;
        let Some(table) = Table::read(&self.connection, &queue.table)? else {
            return Ok(Vec::new());
        };
        let placeholders = queue_placeholders(queue);
        let indexes = INDEXES
            .into_iter()
            .filter(|(_, role)| table.index(&index_name(queue, role)).is_some())
            .map(|(section, role)| {
                let placeholders =
                    with(placeholders.clone(), "index", placeholders[section].clone());
                step(
                    format!("drop the {role} index"),
                    "drop_index",
                    &placeholders,
                )
            });
        let columns = own_columns(queue)
            .filter(|name| table.column(name).is_some())
            .map(|name| {
                let placeholders = with(placeholders.clone(), "column", quote(name));
                step(
                    format!("drop the column {name}"),
                    "drop_column",
                    &placeholders,
                )
            });
        Ok(indexes.chain(columns).collect())
    }

    fn script(&self, step: &Step) -> String {
        let until_no_rows = if step.until_no_rows {
            "; repeat until it changes no row"
        } else {
            ""
        };
        format!("-- {}{until_no_rows}\n{};", step.purpose, step.sql)
    }

    fn suggestions(&mut self, _: &QueueSpec) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    fn check(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        let table = match Table::read(&self.connection, &queue.table) {
            Ok(Some(table)) => table,
            Ok(None) => return Ok(vec![no_table(queue).to_string()]),
            Err(StoreError::Misconfigured(problem)) => return Ok(vec![problem]),
            Err(error) => return Err(error),
        };
        let shape = match QueueColumns::new(queue, &table) {
            Ok(shape) => shape,
            Err(problems) => return Ok(problems),
        };
        let mut missing: Vec<String> = SoftLockColumn::ALL
            .map(|column| queue.soft_lock.name(column))
            .into_iter()
            .filter(|name| table.column(name).is_none())
            .map(|name| format!("table {:?} lacks the column {name}", queue.table))
            .collect();
        for (_, role) in INDEXES {
            let name = index_name(queue, role);
            match table.index(&name) {
                None => missing.push(format!("table {:?} lacks the index {name}", queue.table)),
                Some(index) if shape.is_usable(queue, role, index) => {}
                Some(_) => missing.push(format!(
                    "the index {name} of table {:?} has another order than the queue",
                    queue.table
                )),
            }
        }
        if let OnComplete::Archive(archive) = &queue.on_complete {
            match Table::read(&self.connection, archive)? {
                None => missing.push(format!("the archive table {archive:?} does not exist")),
                Some(archived) => missing.extend(
                    shape
                        .own
                        .iter()
                        .filter(|(name, _)| archived.column(name).is_none())
                        .map(|(name, _)| {
                            format!("the archive table {archive:?} lacks the column {name}")
                        }),
                ),
            }
        }
        Ok(missing)
    }
}

fn step(purpose: String, section: &str, placeholders: &Placeholders) -> Step {
    Step {
        purpose,
        sql: render(ADOPT, section, placeholders),
        until_no_rows: false,
    }
}

fn with(mut placeholders: Placeholders, name: &'static str, value: String) -> Placeholders {
    placeholders.insert(name, value);
    placeholders
}

/// Returns the statement that makes a managed queue's table; none if the queue is not managed.
fn create(queue: &QueueSpec) -> Option<Step> {
    let columns = queue.managed.as_ref()?;
    let (definitions, key) = definitions(queue, columns);
    let purpose = format!("make the table of queue {:?}", queue.name);
    let placeholders = with(queue_placeholders(queue), "definitions", definitions);
    Some(step(
        purpose,
        "create",
        &with(placeholders, "primary_key", key),
    ))
}

/// Renders the table's own columns, and the constraint that has to follow all columns.
fn definitions(queue: &QueueSpec, columns: &[(String, String)]) -> (String, String) {
    let columns = columns
        .iter()
        .map(|(name, declared)| format!("{} {declared}", quote(name)));
    let named = |name: &String| {
        let mut defined = queue.managed.iter().flatten();
        defined.any(|(column, _)| column.eq_ignore_ascii_case(name))
    };
    // A key that counts up never returns, so that an old lease can't name a new item.
    let (first, last) = match &*queue.key {
        [] => (Some("id"), None),
        [key] if !named(key) => (Some(key.as_str()), None),
        key => (None, Some(quote_all(key.iter().map(String::as_str)))),
    };
    let definitions: Vec<String> = first
        .map(|key| format!("{} INTEGER PRIMARY KEY AUTOINCREMENT", quote(key)))
        .into_iter()
        .chain(columns)
        .collect();
    let key = last.map(|key| format!(",\n    PRIMARY KEY ({key})"));
    (definitions.join(",\n    "), key.unwrap_or_default())
}

/// Plans the soft-lock columns that the table lacks.
fn columns(queue: &QueueSpec, table: &Table, shape: &QueueColumns) -> Vec<Step> {
    let lacking = |column: &SoftLockColumn| table.column(queue.soft_lock.name(*column)).is_none();
    let missing = SoftLockColumn::ALL.into_iter().filter(lacking);
    let add = |column: SoftLockColumn| {
        let purpose = format!("add the soft-lock column {}", queue.soft_lock.name(column));
        step(purpose, column.default_name(), &shape.placeholders)
    };
    missing.map(add).collect()
}

/// Plans the indexes that the table lacks, or has in another order.
fn indexes(queue: &QueueSpec, table: &Table, shape: &QueueColumns) -> Vec<Step> {
    let mut steps = Vec::new();
    for (section, role) in INDEXES {
        let index = table.index(&index_name(queue, role));
        if index.is_some_and(|index| shape.is_usable(queue, role, index)) {
            continue;
        }
        if index.is_some() {
            let purpose = format!("drop the {role} index, which has another order than the queue");
            let placeholders = with(
                shape.placeholders.clone(),
                "index",
                shape.placeholders[section].clone(),
            );
            steps.push(step(purpose, "drop_index", &placeholders));
        }
        steps.push(step(
            format!("add the {role} index"),
            section,
            &shape.placeholders,
        ));
    }
    steps
}

/// Plans the archive: the table's own columns, and those of the soft lock that tell how the item ended.
fn archive(queue: &QueueSpec, name: &str, shape: &QueueColumns) -> Step {
    let own = shape.own.iter();
    let own = own.map(|(name, declared)| format!("{} {declared}", quote(name)));
    let kept = [
        (SoftLockColumn::StateTime, "INTEGER"),
        (SoftLockColumn::Owner, "TEXT"),
        (SoftLockColumn::Fence, "INTEGER"),
        (SoftLockColumn::Attempt, "INTEGER"),
        (SoftLockColumn::TraceParent, "TEXT"),
    ]
    .map(|(column, kind)| format!("{} {kind}", quote(queue.soft_lock.name(column))));
    let definitions: Vec<String> = own.chain(kept).collect();
    let placeholders = with(
        shape.placeholders.clone(),
        "archive_definitions",
        definitions.join(", "),
    );
    step(
        format!("make the archive table {name}"),
        "create_archive",
        &placeholders,
    )
}

/// Plans to mark the rows that are completed or dead already, by their mirror columns.
fn backfills(
    connection: &Connection,
    queue: &QueueSpec,
    table: &Table,
    shape: &QueueColumns,
) -> Result<Vec<Step>, StoreError> {
    let mut steps = Vec::new();
    for (state, condition) in states_told(queue) {
        let mut placeholders = with(shape.placeholders.clone(), "backfill_match", condition);
        placeholders.insert("backfill_state", state.code().to_string());
        let untouched = [SoftLockColumn::State, SoftLockColumn::Fence]
            .map(|column| queue.soft_lock.name(column))
            .into_iter()
            .filter(|name| table.column(name).is_some())
            .map(|name| format!("{} = 0 AND ", quote(name)));
        placeholders.insert(
            "backfill_if_present",
            untouched.collect::<Vec<_>>().concat(),
        );
        let needed = render(ADOPT, "backfill_needed", &placeholders);
        if connection.query_row(&needed, [], |row| row.get(0))? {
            let purpose = format!("mark the rows that are {} already", state.name());
            steps.push(Step {
                until_no_rows: true,
                ..step(purpose, "backfill", &placeholders)
            });
        }
    }
    Ok(steps)
}

/// The states that mirror columns tell, and the condition that tells them.
fn states_told(queue: &QueueSpec) -> Vec<(State, String)> {
    [State::Completed, State::Dead]
        .into_iter()
        .filter_map(|state| Some((state, mirrors(queue).looks(state, literal)?)))
        .collect()
}
