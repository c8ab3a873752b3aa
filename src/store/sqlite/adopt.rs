//! Schema changes on a `SQLite` file: plans, checks and makes the changes that turn a table into a queue.

use std::path::Path;

use rusqlite::Connection;

use super::adopt_sql::step;
use super::backfill;
use super::catalogue::Table;
use super::index::{self, drop_index_placeholders};
use super::placeholders;
use super::quote::{quote, quote_all};
use super::remove;
use super::types::ColumnType;
use super::{connection, foreign_keys};
use crate::queue::{QueueSpec, SoftLockColumn};
use crate::store::StoreError;
use crate::store::adoption::{
    ARCHIVED_SOFT_LOCK, ManagedKey, add_columns, add_indexes, archive_name, create_archive_purpose,
    create_table_purpose, create_time_index_purpose, missing_parts, needs_time_index, no_table,
    with,
};
use crate::store::foreign_keys::warnings;
use crate::store::queue_columns::QueueColumns;
use crate::store::schema::{Schema, Step};
use crate::store::template::Placeholders;

/// Plans and makes schema changes. Uses its own connection.
pub struct SqliteSchema {
    connection: Connection,
}

impl SqliteSchema {
    /// Opens the file. Creates it if it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be opened or is not a database.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            connection: connection::open(path)?,
        })
    }

    /// Opens the file to plan and check only. If it does not exist, plans for an empty file and creates none.
    ///
    /// # Errors
    /// Those of [`Self::open`].
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
}

impl Schema for SqliteSchema {
    fn plan(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError> {
        let mut steps = Vec::new();
        let mut future = None;
        if Table::read(&self.connection, &queue.table)?.is_none() {
            let create = create_table(queue).ok_or_else(|| no_table(queue))?;
            // The rest of the plan needs the table's description. A copy in memory gives it before the table exists.
            let connection = Connection::open_in_memory()?;
            connection.execute_batch(&create.sql)?;
            future = Some(connection);
            steps.push(create);
        }
        let connection = future.as_ref().unwrap_or(&self.connection);
        let table = Table::read(connection, &queue.table)?.ok_or_else(|| no_table(queue))?;
        let columns = QueueColumns::new(queue, &table, Vec::new())
            .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
        let placeholders = placeholders::of_table(queue, &table, &columns);
        steps.extend(add_columns(
            queue,
            &table,
            queue.soft_lock_columns(),
            |purpose, column| step(purpose, column.default_name(), &placeholders),
        ));
        steps.extend(backfill::plan(connection, queue, &table, &placeholders)?);
        steps.extend(add_indexes(
            index::all_with_status(queue, &columns.order, &table),
            |purpose, role| {
                let placeholders = drop_index_placeholders(role, &placeholders);
                step(purpose, "drop_index", &placeholders)
            },
            |purpose, role| step(purpose, role.section(), &placeholders),
        ));
        if let Some(name) = archive_name(queue) {
            let archive = Table::read(&self.connection, name)?;
            if archive.is_none() {
                steps.push(create_archive(queue, name, &columns, &placeholders));
            }
            if needs_time_index(queue, archive.as_ref()) {
                let time = queue.soft_lock.name(SoftLockColumn::StateTime);
                let values = [("archive_index", quote(&format!("{name}_{time}")))];
                let placeholders = with(&placeholders, values);
                let purpose = create_time_index_purpose(name);
                steps.push(step(purpose, "archive_index", &placeholders));
            }
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
        remove::plan(&self.connection, queue)
    }

    fn script(&self, step: &Step) -> String {
        let note = if step.until_no_rows {
            "; run it again until it changes no row"
        } else {
            ""
        };
        format!("-- {}{note}\n{};", step.purpose, step.sql)
    }

    fn warnings(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        let keys = foreign_keys::read(&self.connection, &queue.table)?;
        Ok(warnings(queue, &keys))
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
        let columns = match QueueColumns::new(queue, &table, Vec::new()) {
            Ok(columns) => columns,
            Err(problems) => return Ok(problems),
        };
        let archive = match archive_name(queue) {
            Some(name) => Table::read(&self.connection, name)?,
            None => None,
        };
        let indexes = index::all_with_status(queue, &columns.order, &table)
            .map(|(role, status)| (role.index_name(queue, &queue.table), status));
        Ok(missing_parts(
            queue,
            &table,
            &columns,
            indexes,
            archive.as_ref(),
        ))
    }
}

/// Returns the step that creates a managed queue's table. `None`: the queue is not managed.
fn create_table(queue: &QueueSpec) -> Option<Step> {
    let declared = queue.managed_columns.as_ref()?;
    let key = ManagedKey::new(queue);
    let counter = key
        .counter
        .as_ref()
        .map(|name| format!("{} INTEGER PRIMARY KEY AUTOINCREMENT", quote(name)));
    let declared = declared
        .iter()
        .map(|(name, declared)| format!("{} {declared}", quote(name)));
    let definitions: Vec<String> = counter.iter().cloned().chain(declared).collect();
    // The constraint follows all columns. A counter declares the key itself.
    let primary_key = match counter {
        Some(_) => String::new(),
        None => format!(
            ",\n    PRIMARY KEY ({})",
            quote_all(key.columns.iter().map(String::as_str))
        ),
    };
    let placeholders = with(
        &placeholders::of_queue(queue),
        [
            ("definitions", definitions.join(",\n    ")),
            ("primary_key", primary_key),
        ],
    );
    Some(step(create_table_purpose(queue), "create", &placeholders))
}

/// Plans the archive: the table's columns, and the soft-lock columns that tell how the item ended.
fn create_archive(
    queue: &QueueSpec,
    archive: &str,
    columns: &QueueColumns<ColumnType>,
    placeholders: &Placeholders,
) -> Step {
    let data = columns.archived.iter();
    let data = data.map(|column| format!("{} {}", quote(&column.name), column.declared));
    let soft_lock = ARCHIVED_SOFT_LOCK.map(|column| {
        let declared = match column {
            SoftLockColumn::Owner | SoftLockColumn::TraceParent => "TEXT",
            _ => "INTEGER",
        };
        format!("{} {declared}", quote(queue.soft_lock.name(column)))
    });
    let definitions: Vec<String> = data.chain(soft_lock).collect();
    let placeholders = with(
        placeholders,
        [("archive_definitions", definitions.join(", "))],
    );
    step(
        create_archive_purpose(archive),
        "create_archive",
        &placeholders,
    )
}
