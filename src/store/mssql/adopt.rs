//! Schema changes on a server: what a queue's table lacks, and the statements that add it.

use std::time::Duration;

use tokio::runtime::Runtime;

use super::catalogue::{Column, Table};
use super::connection::Connection;
use super::decode::integer;
use super::index::IndexRole;
use super::placeholders::{QueueColumns, queue_placeholders};
use super::quote::{literal, quote, quote_table};
use super::types::ColumnType;
use super::{Settings, backfill, remove};
use crate::queue::{OnComplete, QueueSpec, SoftLockColumn};
use crate::store::StoreError;
use crate::store::schema::{Schema, Step, no_table};
use crate::store::template::{Placeholders, render};
use crate::value::Value;

pub(super) const ADOPT: &str = include_str!("../../../sql/mssql/adopt.sql");

/// How long a statement may take.
const LONG: Duration = Duration::from_secs(86_400);

/// Plans and makes schema changes over a connection of its own. It blocks: not to be used within a runtime.
pub struct MssqlSchema {
    runtime: Runtime,
    connection: Connection,
}

impl MssqlSchema {
    /// Connects.
    pub fn open(settings: &Settings) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Io(format!("no runtime: {error}")))?;
        let settings = Settings {
            // An index over many rows takes its time.
            command_timeout: LONG,
            ..settings.clone()
        };
        let connection = runtime.block_on(Connection::open(&settings.server()?, &settings))?;
        Ok(Self {
            runtime,
            connection,
        })
    }
}

impl Schema for MssqlSchema {
    fn plan(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError> {
        self.runtime.block_on(plan(&mut self.connection, queue))
    }

    fn apply(&mut self, step: &Step, progress: &mut dyn FnMut(u64)) -> Result<(), StoreError> {
        let apply = apply(&mut self.connection, step, progress);
        self.runtime.block_on(apply)
    }

    fn plan_removal(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError> {
        self.runtime
            .block_on(remove::plan(&mut self.connection, queue))
    }

    /// Each step is a batch of its own for sqlcmd and its like; one that repeats is a batch that loops.
    fn script(&self, step: &Step) -> String {
        let Step { purpose, sql, .. } = step;
        if step.until_no_rows {
            format!("-- {purpose}\nWHILE 1 = 1\nBEGIN\n{sql}\nIF @visited = 0 BREAK;\nEND;\nGO")
        } else {
            format!("-- {purpose}\n{sql};\nGO")
        }
    }

    fn suggestions(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        self.runtime
            .block_on(suggestions(&mut self.connection, queue))
    }

    fn check(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        self.runtime.block_on(check(&mut self.connection, queue))
    }
}

/// Returns the statements that turn the table into the queue.
pub(super) async fn plan(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<Step>, StoreError> {
    let mut steps = Vec::new();
    let existing = Table::read(connection, &queue.table).await?;
    let exists = existing.is_some();
    let table = if let Some(table) = existing {
        table
    } else {
        let (create, table) = create(queue).ok_or_else(|| no_table(queue))?;
        steps.push(create);
        table
    };
    let shape = QueueColumns::new(queue, &table)
        .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
    if exists {
        let at_once = connection.server_info.adds_columns_without_rewrite();
        steps.extend(columns(queue, &table, &shape, at_once));
        steps.extend(backfill::plan(connection, queue, &table, &shape).await?);
    }
    let online = exists && connection.server_info.supports_online_indexes();
    steps.extend(indexes(queue, &table, &shape, online));
    if let OnComplete::Archive(name) = &queue.on_complete
        && Table::read(connection, name).await?.is_none()
    {
        steps.push(archive(queue, name, &shape));
    }
    Ok(steps)
}

/// Runs one step.
pub(super) async fn apply(
    connection: &mut Connection,
    step: &Step,
    progress: &mut dyn FnMut(u64),
) -> Result<(), StoreError> {
    if !step.until_no_rows {
        connection.batch(&step.sql).await?;
        return Ok(());
    }
    let mut all = 0;
    loop {
        let results = connection.batch(&step.sql).await?;
        let row = results.last().and_then(|rows| rows.first());
        let row = row.ok_or_else(|| StoreError::Bug("a step that does not count".to_owned()))?;
        let [visited, changed] = [integer(row, 0)?, integer(row, 1)?];
        all += changed.unsigned_abs();
        progress(all);
        if visited == 0 {
            return Ok(());
        }
    }
}

/// Returns what a broker would refuse the queue for.
pub(super) async fn check(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<String>, StoreError> {
    let table = match Table::read(connection, &queue.table).await {
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
    for role in IndexRole::of(queue) {
        let name = role.index_name(queue);
        if role.find(queue, &shape.order, &table).is_some() {
            continue;
        }
        missing.push(match table.index_named(&name) {
            Some(_) => format!(
                "the index {name} of table {:?} has another order than the queue",
                queue.table
            ),
            None => format!("table {:?} lacks the index {name}", queue.table),
        });
    }
    if let OnComplete::Archive(archive) = &queue.on_complete {
        match Table::read(connection, archive).await? {
            None => missing.push(format!("the archive table {archive:?} does not exist")),
            Some(archived) => {
                let own = shape.own.iter();
                let lacking = own.filter(|column| archived.column(&column.name).is_none());
                missing.extend(lacking.map(|column| {
                    format!(
                        "the archive table {archive:?} lacks the column {}",
                        column.name
                    )
                }));
            }
        }
    }
    Ok(missing)
}

/// Returns optional improvements to the queue's table and its database, one sentence each.
async fn suggestions(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<String>, StoreError> {
    let mut suggestions = Vec::new();
    let table = Table::read(connection, &queue.table).await?;
    let engine = &connection.server_info;
    if !engine.babelfish && table.as_ref().is_some_and(|table| table.lock_escalation) {
        suggestions.push(format!(
            "no statement of the broker locks enough rows to lock the table, but one of another program could, and every \
             claim would wait for it; to rule it out: ALTER TABLE {} SET (LOCK_ESCALATION = DISABLE)",
            quote_table(&queue.table)
        ));
    }
    if !engine.snapshot {
        suggestions.push(
            "READ_COMMITTED_SNAPSHOT is off: reports on the table and claims wait for one another; the broker works the \
             same with it: ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE, which ends \
             whatever other programs have under way"
                .to_owned(),
        );
    }
    Ok(suggestions)
}

pub(super) fn step(purpose: String, section: &str, placeholders: &Placeholders) -> Step {
    Step {
        purpose,
        sql: render(ADOPT, section, placeholders),
        until_no_rows: false,
    }
}

pub(super) fn with(
    mut placeholders: Placeholders,
    name: &'static str,
    value: String,
) -> Placeholders {
    placeholders.insert(name, value);
    placeholders
}

/// Plans the soft-lock columns that the table lacks.
pub(super) fn columns(
    queue: &QueueSpec,
    table: &Table,
    shape: &QueueColumns,
    at_once: bool,
) -> Vec<Step> {
    let nullable = if at_once { "NOT NULL" } else { "NULL" };
    let lacking = |column: &SoftLockColumn| table.column(queue.soft_lock.name(*column)).is_none();
    let add = |column: SoftLockColumn| {
        let purpose = format!("add the soft-lock column {}", queue.soft_lock.name(column));
        let name = literal(&Value::Text(queue.soft_lock.name(column).to_owned()));
        let mut placeholders = with(shape.placeholders.clone(), "column_literal", name);
        placeholders.insert("nullable", nullable.to_owned());
        step(purpose, column.default_name(), &placeholders)
    };
    // Those of fixed length that are never NULL first: they make no row longer than it may be.
    let rest = SoftLockColumn::ALL.into_iter();
    let rest = rest.filter(|column| !backfill::NOT_NULL_COLUMNS.contains(column));
    let missing = backfill::NOT_NULL_COLUMNS
        .into_iter()
        .chain(rest)
        .filter(lacking);
    missing.map(add).collect()
}

/// Plans the indexes that the table lacks, or has in another order.
pub(super) fn indexes(
    queue: &QueueSpec,
    table: &Table,
    shape: &QueueColumns,
    online: bool,
) -> Vec<Step> {
    let online = if online { " WITH (ONLINE = ON)" } else { "" };
    let mut steps = Vec::new();
    for role in IndexRole::of(queue) {
        if role.find(queue, &shape.order, table).is_some() {
            continue;
        }
        let (name, section) = (role.index_name(queue), role.section());
        if table.index_named(&name).is_some() {
            let purpose = format!(
                "drop the {} index, which has another order than the queue",
                role.name()
            );
            let placeholders = with(shape.placeholders.clone(), "index", quote(&name));
            steps.push(step(purpose, "drop_index", &placeholders));
        }
        let literal = literal(&Value::Text(name));
        let mut placeholders = with(shape.placeholders.clone(), "index_literal", literal);
        placeholders.insert("online", online.to_owned());
        steps.push(step(
            format!("add the {} index", role.name()),
            section,
            &placeholders,
        ));
    }
    steps
}

/// Plans the archive: the table's own columns, and those of the soft lock that tell how the item ended.
pub(super) fn archive(queue: &QueueSpec, name: &str, shape: &QueueColumns) -> Step {
    let own = shape.own.iter().map(|column| {
        let collation = column.collation.as_ref();
        let collation = collation.map(|collation| format!(" COLLATE {collation}"));
        let collation = collation.unwrap_or_default();
        format!(
            "{} {}{collation} NULL",
            quote(&column.name),
            column.declared
        )
    });
    let kept = [
        (SoftLockColumn::StateTime, "datetime2(3)"),
        (SoftLockColumn::Owner, "nvarchar(128)"),
        (SoftLockColumn::Fence, "bigint"),
        (SoftLockColumn::Attempt, "int"),
        (SoftLockColumn::TraceParent, "varchar(55)"),
    ]
    .map(|(column, kind)| format!("{} {kind} NULL", quote(queue.soft_lock.name(column))));
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

/// Plans a managed queue's table, and returns it as it will be; none if the queue is not managed.
fn create(queue: &QueueSpec) -> Option<(Step, Table)> {
    let managed = queue.managed.as_ref()?;
    let named = |name: &String| {
        managed
            .iter()
            .any(|(column, _)| column.eq_ignore_ascii_case(name))
    };
    // A key that counts up never returns, so that an old lease can't name a new item.
    let (counter, key) = match &*queue.key {
        [] => (Some("id".to_owned()), vec!["id".to_owned()]),
        [key] if !named(key) => (Some(key.clone()), vec![key.clone()]),
        key => (None, key.to_vec()),
    };
    let counter = counter.map(|name| (name, "bigint NOT NULL IDENTITY(1, 1)".to_owned()));
    let own = managed.iter().map(|(name, declared)| {
        // SQL Server's own type of that name is a relic.
        let declared = match declared.to_ascii_lowercase().strip_prefix("text") {
            Some(rest) => format!("nvarchar(max){rest}"),
            None => declared.clone(),
        };
        let in_key = key.iter().any(|part| part.eq_ignore_ascii_case(name));
        let bare = in_key && !declared.to_ascii_lowercase().contains("null");
        (
            name.clone(),
            if bare {
                format!("{declared} NOT NULL")
            } else {
                declared
            },
        )
    });
    let columns: Vec<(String, String)> = counter.into_iter().chain(own).collect();
    let definitions = columns
        .iter()
        .map(|(name, kind)| format!("{} {kind}", quote(name)));
    let definitions: Vec<String> = definitions.collect();
    let mut placeholders = with(
        queue_placeholders(queue),
        "definitions",
        definitions.join(",\n    "),
    );
    let list: Vec<String> = key.iter().map(|name| quote(name)).collect();
    placeholders.insert(
        "primary_key",
        format!(",\n    PRIMARY KEY ({})", list.join(", ")),
    );
    let column = |(name, declared): &(String, String)| Column {
        name: name.clone(),
        kind: ColumnType::from_type_name(declared.split(['(', ' ']).next().unwrap_or_default()),
        declared: declared
            .split(" NOT NULL")
            .next()
            .unwrap_or_default()
            .to_owned(),
        collation: None,
        nullable: false,
        generated: declared.contains("IDENTITY"),
    };
    let table = Table {
        columns: columns.iter().map(column).collect(),
        unique: vec![key],
        indexes: Vec::new(),
        lock_escalation: false,
        reports_filters: true,
    };
    let purpose = format!("make the table of queue {:?}", queue.name);
    Some((step(purpose, "create", &placeholders), table))
}
