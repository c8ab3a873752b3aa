//! The types that the soft-lock columns of a table may have, if they are older than the queue.

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use rusqlite::Connection;

use super::catalogue::Table;
use super::types::ColumnType;
use crate::StoreError;
use crate::queue_columns::{QueueColumns, group_problem};

/// Finds the columns that `queue` uses, or the reasons why they cannot serve, one sentence each: those of [`QueueColumns::new`],
/// and soft-lock columns of a wrong type.
pub(super) fn queue_columns(
    connection: &Connection,
    queue: &QueueSpec,
    table: &Table,
) -> Result<Result<QueueColumns<ColumnType>, Vec<String>>, StoreError> {
    let mut problems = Vec::new();
    for part in queue.soft_lock_columns() {
        let name = queue.soft_lock.name(part);
        let Some(column) = table.column(name) else {
            continue;
        };
        let (fits, expected) = match part {
            SoftLockColumn::State
            | SoftLockColumn::StateTime
            | SoftLockColumn::Fence
            | SoftLockColumn::Attempt => (
                is_integer(column.kind)
                    && !column.nullable
                    && has_default(connection, &queue.table, &column.name, part)?,
                "INTEGER NOT NULL with a default (lease_state: DEFAULT 0), so that the rows of other programs are ready",
            ),
            SoftLockColumn::DueTime => (
                is_integer(column.kind) && column.nullable,
                "INTEGER that can be NULL",
            ),
            SoftLockColumn::Owner | SoftLockColumn::Error | SoftLockColumn::TraceParent => {
                let fits = column.kind == ColumnType::Text && column.nullable;
                (fits, "TEXT that can be NULL")
            }
            SoftLockColumn::Token | SoftLockColumn::Checkpoint => {
                let is_blob = matches!(column.kind, ColumnType::Blob | ColumnType::Any);
                let fits = is_blob && column.nullable;
                (fits, "BLOB that can be NULL")
            }
        };
        if !fits || column.generated {
            let (default_name, declared) = (part.default_name(), &column.declared);
            let nullable = if column.nullable { "" } else { " NOT NULL" };
            let generated = if column.generated { ", generated" } else { "" };
            problems.push(format!(
                "the column {} of table {:?} is {declared}{nullable}{generated}; {default_name} needs {expected}: give the \
                 broker's column another name (soft_lock.{default_name} = \"lb_{default_name}\" in the settings of queue {:?})",
                column.name, queue.table, queue.name
            ));
        }
    }
    problems.extend(group_problem(queue, table, |column| {
        !matches!(
            column.kind,
            ColumnType::Real | ColumnType::Numeric | ColumnType::Any
        )
    }));
    Ok(QueueColumns::new(queue, table, problems))
}

fn is_integer(kind: ColumnType) -> bool {
    kind == ColumnType::Integer || kind.makes_numbers() && kind != ColumnType::Bool
}

/// Returns whether a row that another program inserts gets a value: for the state 0, which is ready.
fn has_default(
    connection: &Connection,
    table: &str,
    column: &str,
    part: SoftLockColumn,
) -> Result<bool, StoreError> {
    let default = "SELECT dflt_value FROM pragma_table_xinfo(?1) WHERE name = ?2";
    let default: Option<String> =
        connection.query_row(default, [table, column], |row| row.get(0))?;
    Ok(match part {
        SoftLockColumn::State => default.is_some_and(|default| default.trim() == "0"),
        _ => default.is_some(),
    })
}
