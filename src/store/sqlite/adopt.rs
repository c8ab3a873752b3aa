//! Schema changes on a `SQLite` file: plans, checks and makes the changes that turn a table into a queue.

use std::path::Path;

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::added_parts::recording;
use super::adopt_sql::{render, step};
use super::catalogue::Table;
use super::clock::system_clock;
use super::quote::{quote, quote_all, text_literal};
use super::read_connection::ReadConnection;
use super::soft_lock_types::queue_columns;
use super::types::ColumnType;
use super::{
    added_parts, backfill, connection, epoch, index, instance, migrations, placeholders, remove,
    turn, warnings,
};
use crate::added_parts::AddedParts;
use crate::adoption::{
    self, ARCHIVED_SOFT_LOCK, IndexStatus, ManagedKey, Unfit, add_columns, add_indexes,
    archive_name, check_managed_columns, create_archive_purpose, create_record_purpose,
    create_table_purpose, create_time_index_purpose, drop_unused_purpose, foreign_indexes,
    forget_table_purpose, lacks_states, may_need_backfill, missing_parts, needs_time_index,
    no_table, set_policy_purpose, unused_indexes, with,
};
use crate::epoch::NewEpoch;
use crate::index_role::IndexRole;
use crate::instance::refuse_other_rule;
use crate::queue_columns::QueueColumns;
use crate::schema::{Progress, Removal, SAMPLED_ROWS, Schema, Step};
use crate::template::Placeholders;
use crate::turn::policy_problem;
use crate::{BrokerList, StoreError, Survey};

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

    /// Opens the file to plan and check only. If it does not exist, plans for an empty file and creates none. Leaves no log or index of
    /// another user beside a file that no program uses.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        let connection = if path.exists() {
            ReadConnection::open(path)?.into_connection()
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
    pub(super) fn transaction<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let result = change(self);
        let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
        // A trigger can have rolled the transaction back.
        if result.is_ok() || !self.connection.is_autocommit() {
            self.connection.execute_batch(end)?;
        }
        result
    }
}

impl SqliteSchema {
    fn run_once(&mut self, sql: &str) -> Result<(), StoreError> {
        if self.connection.is_autocommit() {
            return self.transaction(|schema| Ok(schema.connection.execute_batch(sql)?));
        }
        // The caller has begun a transaction.
        let savepoint = self.connection.savepoint()?;
        savepoint.execute_batch(sql)?;
        savepoint.commit()?;
        Ok(())
    }
}

/// Returns the problem of a step, with the step.
fn refused_step(step: &Step, problem: &str) -> String {
    const REMEDY: &str = "; SQLite drops no column while a view, a trigger or an index does not compile or uses the column: drop that \
                          one first, and create it again afterwards";

    let remedy = if problem.contains(": error in ") {
        REMEDY
    } else {
        ""
    };
    format!("{}: {problem}{remedy}", step.purpose)
}

impl Schema for SqliteSchema {
    fn plan(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError> {
        // A plan reads one state of the file: another broker that starts at the same time can be adding the same parts.
        let begin = || self.connection.unchecked_transaction();
        let _snapshot = self.connection.is_autocommit().then(begin).transpose()?;
        let mut steps = Vec::new();
        let mut future = None;
        if Table::read(&self.connection, &queue.table)?.is_none() {
            let create =
                create_table(queue).ok_or_else(|| no_table(queue, self.connection.path()))?;
            // The rest of the plan needs the table's description. A copy in memory gives it before the table exists.
            future = Some(created_in_memory(queue, &create)?);
            steps.push(create);
        }
        let connection = future.as_ref().unwrap_or(&self.connection);
        let no_table = || no_table(queue, connection.path());
        let table = Table::read(connection, &queue.table)?.ok_or_else(no_table)?;
        check_managed_columns(queue, &table)?;
        let columns = queue_columns(connection, queue, &table)?
            .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
        let managed = queue.managed_columns.is_some();
        let mut added = if managed {
            AddedParts::default()
        } else {
            added_parts::read(&self.connection, &queue.table)?
        };
        let lacking = added.forget_replaced_table(queue, &table);
        self.refuse_taken_parts(queue, &table, &columns, &added)?;
        let mut placeholders = placeholders::of_table(queue, &table, &columns);
        let mut changes = Vec::new();
        if lacks_states(queue, &table) {
            let highest = remove::highest_fence(connection, &placeholders)?;
            added.first_fence = added.first_fence.max(highest);
            changes.extend((!managed).then(|| remove::keep_fence(&placeholders, queue)));
        }
        placeholders.insert("first_fence", added.first_fence.to_string());
        if !lacking.is_empty() {
            changes.push(forget_table(queue, &lacking, &placeholders));
        }
        changes.extend(add_columns(
            queue,
            &table,
            queue.soft_lock_columns(),
            |purpose, column| {
                let name = queue.soft_lock.name(column);
                let placeholders = recording(&placeholders, queue, &queue.table, "column", name);
                let definition = render(column.default_name(), &placeholders);
                let placeholders = with(&placeholders, [("definition", definition)]);
                step(purpose, "add_column", &placeholders)
            },
        ));
        let indexes = index::all_with_status(queue, &columns, &table);
        if may_need_backfill(queue, &table, indexes) {
            changes.extend(backfill::plan(connection, queue, &table, &placeholders)?);
        }
        changes.extend(add_indexes(
            index::all_with_status(queue, &columns, &table),
            |purpose, role| {
                let name = role.index_name(queue, &queue.table);
                remove::drop_index(purpose, &placeholders, &queue.table, &name)
            },
            |purpose, role| {
                let name = role.index_name(queue, &queue.table);
                let placeholders = recording(&placeholders, queue, &queue.table, "index", &name);
                let placeholders = with(&placeholders, [("index", quote(&name))]);
                let definition = index::definition(role, queue, &columns);
                step(purpose, "create_index", &with(&placeholders, definition)).reading_all_rows()
            },
        ));
        changes.extend(self.group_changes(queue, &table, &added, &placeholders)?);
        if let Some(name) = archive_name(queue) {
            let archive = Table::read(&self.connection, name)?;
            if archive.is_none() {
                changes.push(create_archive(queue, name, &columns, &placeholders));
            }
            if needs_time_index(queue, archive.as_ref()) {
                let index = index::archive_name(queue, name);
                let placeholders = recording(&placeholders, queue, name, "index", &index);
                let placeholders = with(&placeholders, [("archive_index", quote(&index))]);
                let purpose = create_time_index_purpose(name);
                changes.push(step(purpose, "archive_index", &placeholders));
            }
        }
        // The drop of a managed table's index uses the record too.
        let uses_record = |step: &Step| step.sql.contains("lease_broker_added");
        if !added.has_tables && changes.iter().any(uses_record) {
            steps.push(step(
                create_record_purpose(),
                "create_record",
                &placeholders,
            ));
        }
        steps.append(&mut changes);
        Ok(steps)
    }

    fn count_rows(&mut self, queue: &QueueSpec) -> Result<u64, StoreError> {
        let count = format!("SELECT count(*) FROM {}", quote(&queue.table));
        let rows: i64 = self.connection.query_row(&count, [], |row| row.get(0))?;
        Ok(rows.unsigned_abs())
    }

    fn apply(&mut self, step: &Step, progress: &mut dyn FnMut(Progress)) -> Result<(), StoreError> {
        let done = match &step.walk {
            Some(walk) => backfill::walk(&mut self.connection, walk, progress),
            None => self.run_once(&step.sql),
        };
        done.map_err(|error| match error {
            StoreError::Misconfigured(problem) => {
                StoreError::Misconfigured(refused_step(step, &problem))
            }
            other => other,
        })
    }

    fn create_broker_tables(&mut self) -> Result<(), StoreError> {
        migrations::migrate(&self.connection)
    }

    fn plan_removal(&mut self, queue: &QueueSpec) -> Result<Removal, StoreError> {
        remove::plan(&self.connection, queue)
    }

    fn held_leases(&mut self, queue: &QueueSpec) -> Result<i64, StoreError> {
        remove::held_leases(&self.connection, queue)
    }

    fn brokers(&mut self) -> Result<Option<BrokerList>, StoreError> {
        instance::list(&self.connection, system_clock()())
    }

    fn begin_epoch(&mut self, queues: &[QueueSpec]) -> Result<NewEpoch, StoreError> {
        self.transaction(|schema| epoch::begin(&schema.connection, queues, 0))
    }

    fn tables(&mut self) -> Result<Vec<String>, StoreError> {
        let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'
            AND name NOT GLOB 'sqlite_*' AND name NOT GLOB 'lease_broker_*' ORDER BY name";
        let mut tables = self.connection.prepare(tables)?;
        let tables = tables.query_map([], |row| row.get(0))?;
        Ok(tables.collect::<rusqlite::Result<_>>()?)
    }

    fn survey(&mut self, name: &str) -> Result<Option<Survey>, StoreError> {
        let Some(table) = Table::read(&self.connection, name)? else {
            return Ok(None);
        };
        let count = format!("SELECT count(*) FROM {}", quote(name));
        let rows: i64 = self.connection.query_row(&count, [], |row| row.get(0))?;
        let added = added_parts::read(&self.connection, name)?;
        Ok(Some(Survey::new(&table, &added, rows.unsigned_abs())))
    }

    fn values(
        &mut self,
        table: &str,
        column: &str,
        limit: usize,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        let (table, column) = (quote(table), quote(column));
        let values = format!(
            "SELECT CAST({column} AS TEXT), count(*) FROM (SELECT {column} FROM {table} LIMIT {SAMPLED_ROWS})
            WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 1 LIMIT {limit}"
        );
        let mut values = self.connection.prepare(&values)?;
        let value = |row: &Row<'_>| {
            // A text can hold any bytes.
            let text = row.get_ref(0)?.as_bytes()?;
            let rows: i64 = row.get(1)?;
            Ok((
                String::from_utf8_lossy(text).into_owned(),
                rows.unsigned_abs(),
            ))
        };
        let values = values.query_map([], value)?;
        Ok(values.collect::<rusqlite::Result<_>>()?)
    }

    fn lock(&self, step: &Step) -> &'static str {
        if step.until_no_rows {
            "writers wait while 2,000 rows are changed, and then get their turn"
        } else if step.reads_all_rows {
            "writers wait while all rows are read, about 1 s per 1,000,000 rows"
        } else {
            "writers wait for a moment"
        }
    }

    fn script(&self, step: &Step) -> String {
        let Step { purpose, sql, .. } = step;
        if step.until_no_rows {
            format!("-- {purpose}; run it again until it changes no row\n{sql};")
        } else {
            format!("-- {purpose}\nBEGIN IMMEDIATE;\n{sql};\nCOMMIT;")
        }
    }

    fn warnings(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        warnings::all(&self.connection, queue)
    }

    fn suggestions(&mut self, _: &QueueSpec) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    fn check(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        let mut problems = self.unfit(queue)?.problems;
        let stored = turn::stored_policy(&self.connection, queue)?;
        problems.extend(stored.and_then(|stored| policy_problem(queue, &stored)));
        Ok(problems)
    }
}

impl SqliteSchema {
    /// Refuses a table with columns, indexes or states of its own that the queue would take, and names of indexes that are taken.
    fn refuse_taken_parts(
        &self,
        queue: &QueueSpec,
        table: &Table,
        columns: &QueueColumns<ColumnType>,
        added: &AddedParts,
    ) -> Result<(), StoreError> {
        let mut problems = Vec::new();
        if queue.managed_columns.is_none() {
            problems.extend(added.foreign_columns(queue, table));
            let indexes = index_status(queue, columns, table);
            problems.extend(foreign_indexes(queue, added, indexes));
            problems.extend(strange_states(&self.connection, queue, table, added)?);
        }
        problems.extend(self.taken_names(queue, columns, table)?);
        if problems.is_empty() {
            return Ok(());
        }
        Err(StoreError::Misconfigured(problems.join("; ")))
    }

    /// Returns one sentence for each index that is missing and whose name another index, table or view of the file has.
    fn taken_names(
        &self,
        queue: &QueueSpec,
        columns: &QueueColumns<ColumnType>,
        table: &Table,
    ) -> Result<Vec<String>, StoreError> {
        let missing = index_status(queue, columns, table);
        let missing = missing.filter(|(_, status)| *status == IndexStatus::Missing);
        let mut names: Vec<String> = missing.map(|(name, _)| name).collect();
        if let Some(name) = archive_name(queue)
            && needs_time_index(queue, Table::read(&self.connection, name)?.as_ref())
        {
            names.push(index::archive_name(queue, name));
        }
        let find = "SELECT type || CASE type WHEN 'index' THEN ' of table ' || tbl_name ELSE '' END
            FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE AND type <> 'trigger'";
        let mut find = self.connection.prepare(find)?;
        let mut problems = Vec::new();
        for name in names {
            let found: Option<String> = find.query_row([&name], |row| row.get(0)).optional()?;
            problems.extend(found.map(|found| {
                format!(
                    "queue {:?} needs the name {name} for an index, and another {found} has it: rename that one or drop it",
                    queue.name
                )
            }));
        }
        Ok(problems)
    }

    /// Returns the steps that remove what only another rule of groups needs, and store the rule of the queue's groups.
    fn group_changes(
        &self,
        queue: &QueueSpec,
        table: &Table,
        added: &AddedParts,
        placeholders: &Placeholders,
    ) -> Result<Vec<Step>, StoreError> {
        let managed = queue.managed_columns.is_some();
        let unused = IndexRole::unused(queue, &queue.table).into_iter();
        let unused = unused
            .filter(|(_, name)| table.index(name).is_some() && (managed || added.has_index(name)));
        let drop_index = |(role, name): (IndexRole, String)| {
            let purpose = drop_unused_purpose(role);
            remove::drop_index(purpose, placeholders, &queue.table, &name)
        };
        let mut changes: Vec<Step> = unused.map(drop_index).collect();
        let stored = turn::stored_policy(&self.connection, queue)?;
        let policy = queue.group_policy();
        if stored.is_some_and(|stored| stored != policy) {
            let placeholders = with(placeholders, [("policy", text_literal(&policy))]);
            let purpose = set_policy_purpose(queue, &policy);
            changes.push(step(purpose, "set_policy", &placeholders));
        }
        Ok(changes)
    }

    /// Checks that no running broker serves the rows of the queue with another rule of groups.
    pub(super) fn refuse_other_rule(&self, queue: &QueueSpec, now: i64) -> Result<(), StoreError> {
        let list = instance::list(&self.connection, now)?;
        list.map_or(Ok(()), |list| refuse_other_rule(queue, &list))
    }

    /// Returns the reasons for which `serve` would refuse the queue.
    pub(super) fn unfit(&self, queue: &QueueSpec) -> Result<Unfit, StoreError> {
        let table = match Table::read(&self.connection, &queue.table) {
            Ok(Some(table)) => table,
            Ok(None) => {
                let missing = no_table(queue, self.connection.path());
                return Ok(Unfit::for_good(vec![missing.to_string()]));
            }
            Err(StoreError::Misconfigured(problem)) => return Ok(Unfit::for_good(vec![problem])),
            Err(error) => return Err(error),
        };
        let columns = match queue_columns(&self.connection, queue, &table)? {
            Ok(columns) => columns,
            Err(problems) => return Ok(Unfit::for_good(problems)),
        };
        let archive = match archive_name(queue) {
            Some(name) => Table::read(&self.connection, name)?,
            None => None,
        };
        let indexes = index_status(queue, &columns, &table);
        let mut unfit = missing_parts(queue, &table, &columns, indexes, archive.as_ref());
        let mut unused = IndexRole::unused(queue, &queue.table);
        unused.retain(|(_, name)| table.index(name).is_some());
        unfit.add(Unfit::lacking(unused_indexes(queue, &unused)));
        let problem = warnings::deletion_problem(&self.connection, queue, &table, &columns)?;
        unfit.add(Unfit::for_good(problem.into_iter().collect()));
        let problem = warnings::change_problem(&self.connection, queue, &table)?;
        unfit.add(Unfit::for_good(problem.into_iter().collect()));
        Ok(unfit)
    }
}

/// Returns the name of each index with its status in `table`.
fn index_status(
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
    table: &Table,
) -> impl Iterator<Item = (String, IndexStatus)> {
    index::all_with_status(queue, columns, table)
        .map(|(role, status)| (role.index_name(queue, &queue.table), status))
}

/// Returns a sentence if rows have values that are no states in a column for the state that the table had before.
fn strange_states(
    connection: &Connection,
    queue: &QueueSpec,
    table: &Table,
    added: &AddedParts,
) -> Result<Option<String>, StoreError> {
    if !added.has_own_state(queue, table) {
        return Ok(None);
    }
    let count = render("strange_states", &placeholders::of_queue(queue));
    let count: i64 = connection.query_row(&count, [], |row| row.get(0))?;
    Ok(adoption::strange_states(queue, count))
}

/// Returns the step that deletes the record of a table that was replaced.
fn forget_table(queue: &QueueSpec, lacking: &[String], placeholders: &Placeholders) -> Step {
    let names: Vec<String> = lacking.iter().map(|name| text_literal(name)).collect();
    let values = [
        ("recorded_table", text_literal(&queue.table)),
        ("names", names.join(", ")),
    ];
    let placeholders = with(placeholders, values);
    step(forget_table_purpose(lacking), "forget_table", &placeholders)
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

/// Runs the step that creates a managed queue's table on an empty database in memory.
///
/// # Errors
/// The broker wrote the step, except for the types of the columns. So SQLite refuses a type.
fn created_in_memory(queue: &QueueSpec, create: &Step) -> Result<Connection, StoreError> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(&create.sql).map_err(|error| {
        let problem = match error {
            rusqlite::Error::SqlInputError { msg, .. } => msg,
            other => other.to_string(),
        };
        StoreError::Misconfigured(format!(
            "queue {:?}: SQLite refuses the columns in managed_columns: {problem}; check their types",
            queue.name
        ))
    })?;
    Ok(connection)
}

/// Plans the archive: the table's columns, and the soft-lock columns that tell how the item ended.
fn create_archive(
    queue: &QueueSpec,
    archive: &str,
    columns: &QueueColumns<ColumnType>,
    placeholders: &Placeholders,
) -> Step {
    let data = columns.archived.iter();
    let data = data.map(|column| {
        // The archive is no STRICT table: there, ANY would make a number of each text that looks like one.
        let declared = match column.kind {
            ColumnType::Any => "",
            _ => &column.declared,
        };
        format!("{} {declared}", quote(&column.name))
    });
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
