//! Schema changes on a server: what a queue's table lacks, and the statements that add it.

use tokio::runtime::Runtime;

use super::Settings;
use super::catalogue::{Column, Table};
use super::connection::Connection;
use super::quote::{literal, quote};
use super::shape::{INDEXES, Shape, index_name, queue_holes};
use super::types::ColumnType;
use crate::lease::State;
use crate::queue::{MirrorValue, OnComplete, QueueSpec, SoftLockColumn};
use crate::store::StoreError;
use crate::store::schema::{Schema, Step};
use crate::store::template::{Holes, render};
use crate::value::Value;

const ADOPT: &str = include_str!("../../../sql/mssql/adopt.sql");

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
        let connection = runtime.block_on(Connection::open(&settings.server()?, settings))?;
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
    let shape = Shape::new(queue, &table)
        .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
    if exists {
        steps.extend(columns(queue, &table, &shape));
        steps.extend(backfills(connection, queue, &table, &shape).await?);
    }
    steps.extend(indexes(queue, &table, &shape));
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
    if !step.repeat {
        connection.batch(&step.sql).await?;
        return Ok(());
    }
    let mut changed = 0;
    loop {
        match connection.execute(&step.sql).await? {
            0 => return Ok(()),
            rows => {
                changed += rows;
                progress(changed);
            }
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
    let shape = match Shape::new(queue, &table) {
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
        if shape.find_index(queue, role, &table).is_some() {
            continue;
        }
        missing.push(match outdated(&table, &name) {
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

/// Finds an index of this name; Babelfish adds a hash to it.
fn outdated<'a>(table: &'a Table, name: &str) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let mut names = table.indexes.iter().map(|index| index.name.as_str());
    names.find(|known| known.to_ascii_lowercase().starts_with(&name))
}

fn no_table(queue: &QueueSpec) -> StoreError {
    StoreError::Misconfigured(format!(
        "the table {:?} of queue {:?} does not exist; give the queue its columns (managed = {{ … }}) to have it made",
        queue.table, queue.name
    ))
}

fn step(purpose: String, section: &str, holes: &Holes) -> Step {
    Step {
        purpose,
        sql: render(ADOPT, section, holes),
        repeat: false,
    }
}

fn with(mut holes: Holes, name: &'static str, value: String) -> Holes {
    holes.insert(name, value);
    holes
}

/// Plans the soft-lock columns that the table lacks.
fn columns(queue: &QueueSpec, table: &Table, shape: &Shape) -> Vec<Step> {
    let lacking = |column: &SoftLockColumn| table.column(queue.soft_lock.name(*column)).is_none();
    let add = |column: SoftLockColumn| {
        let purpose = format!("add the soft-lock column {}", queue.soft_lock.name(column));
        step(purpose, column.default_name(), &shape.holes)
    };
    let missing = SoftLockColumn::ALL.into_iter().filter(lacking);
    missing.map(add).collect()
}

/// Plans the indexes that the table lacks, or has in another order.
fn indexes(queue: &QueueSpec, table: &Table, shape: &Shape) -> Vec<Step> {
    let mut steps = Vec::new();
    for (section, role) in INDEXES {
        if shape.find_index(queue, role, table).is_some() {
            continue;
        }
        let name = index_name(queue, role);
        if outdated(table, &name).is_some() {
            let purpose = format!("drop the {role} index, which has another order than the queue");
            let holes = with(shape.holes.clone(), "index", quote(&name));
            steps.push(step(purpose, "drop_index", &holes));
        }
        steps.push(step(format!("add the {role} index"), section, &shape.holes));
    }
    steps
}

/// Plans to mark the rows that are completed or dead already, by their mirror columns.
async fn backfills(
    connection: &mut Connection,
    queue: &QueueSpec,
    table: &Table,
    shape: &Shape,
) -> Result<Vec<Step>, StoreError> {
    let mut steps = Vec::new();
    for state in [State::Completed, State::Dead] {
        let mirrors = queue.mirror.iter().filter(|mirror| mirror.state == state);
        let conditions: Vec<String> = mirrors
            .filter_map(|mirror| {
                let column = quote(&mirror.column);
                match &mirror.value {
                    MirrorValue::Literal(Value::Null) => Some(format!("t.{column} IS NULL")),
                    MirrorValue::Literal(value) => Some(format!("t.{column} = {}", literal(value))),
                    MirrorValue::Now | MirrorValue::Worker => None,
                }
            })
            .collect();
        if conditions.is_empty() {
            continue;
        }
        let mut holes = with(
            shape.holes.clone(),
            "backfill_match",
            conditions.join(" AND "),
        );
        holes.insert("backfill_state", state.code().to_string());
        let untouched = [SoftLockColumn::State, SoftLockColumn::Fence]
            .map(|column| queue.soft_lock.name(column))
            .into_iter()
            .filter(|name| table.column(name).is_some())
            .map(|name| format!("t.{} = 0 AND ", quote(name)));
        holes.insert(
            "backfill_if_present",
            untouched.collect::<Vec<_>>().concat(),
        );
        let needed = render(ADOPT, "backfill_needed", &holes);
        let results = connection.batch(&needed).await?;
        let row = results.first().and_then(|rows| rows.first());
        let count: Option<i32> = row.map(|row| row.try_get(0)).transpose()?.flatten();
        if count.is_some_and(|count| count > 0) {
            let purpose = format!("mark the rows that are {} already", state.name());
            steps.push(Step {
                repeat: true,
                ..step(purpose, "backfill", &holes)
            });
        }
    }
    Ok(steps)
}

/// Plans the archive: the table's own columns, and those of the soft lock that tell how the item ended.
fn archive(queue: &QueueSpec, name: &str, shape: &Shape) -> Step {
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
    let holes = with(
        shape.holes.clone(),
        "archive_definitions",
        definitions.join(", "),
    );
    step(
        format!("make the archive table {name}"),
        "create_archive",
        &holes,
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
    let mut holes = with(
        queue_holes(queue),
        "definitions",
        definitions.join(",\n    "),
    );
    let list: Vec<String> = key.iter().map(|name| quote(name)).collect();
    holes.insert(
        "primary_key",
        format!(",\n    PRIMARY KEY ({})", list.join(", ")),
    );
    let column = |(name, declared): &(String, String)| Column {
        name: name.clone(),
        kind: ColumnType::named(declared.split(['(', ' ']).next().unwrap_or_default()),
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
    };
    let purpose = format!("make the table of queue {:?}", queue.name);
    Some((step(purpose, "create", &holes), table))
}
