//! Removal: drops from a table the indexes and the soft-lock columns that adoption added and recorded.

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use rusqlite::Connection;

use super::adopt_sql::{removal_step, render_removal};
use super::catalogue::Table;
use super::clock::system_clock;
use super::quote::{quote, text_literal};
use super::{added_parts, index, placeholders};
use crate::StoreError;
use crate::adoption::{archive_name, keep_fence_purpose, kept_columns, refuse_managed, with};
use crate::index_role::IndexRole;
use crate::schema::{Removal, Step};
use crate::template::Placeholders;

/// Plans the removal as one step, so that it never stops half-way. Indexes come first, because `SQLite` does not drop a column that an
/// index uses.
pub(super) fn plan(connection: &Connection, queue: &QueueSpec) -> Result<Removal, StoreError> {
    refuse_managed(queue)?;
    let Some(table) = Table::read(connection, &queue.table)? else {
        return Ok(Removal::default());
    };
    let mut parts = Vec::new();
    let placeholders = placeholders::of_queue(queue);
    let mut added = added_parts::read(connection, &queue.table)?;
    added.forget_replaced_table(queue, &table);
    for role in IndexRole::ALL {
        let name = role.index_name(queue, &queue.table);
        if table.index(&name).is_some() && added.has_index(&name) {
            let purpose = format!("drop the {} index", role.name());
            parts.push(drop_index(purpose, &placeholders, &queue.table, &name));
        }
    }
    if let Some(archive) = archive_name(queue) {
        let name = index::archive_name(queue, archive);
        let recorded = added_parts::read(connection, archive)?.has_index(&name);
        if let Some(archived) = Table::read(connection, archive)?
            && recorded
            && archived.index(&name).is_some()
        {
            let purpose = format!("drop the index by time of the archive table {archive}");
            parts.push(drop_index(purpose, &placeholders, archive, &name));
        }
    }
    let (dropped, kept) = added.removable_columns(queue, &table);
    for column in dropped {
        let name = queue.soft_lock.name(column);
        let placeholders = added_parts::naming(&placeholders, &queue.table, name);
        if column == SoftLockColumn::Fence {
            parts.push(keep_fence(&placeholders, queue));
        }
        let placeholders = with(&placeholders, [("column", quote(name))]);
        let purpose = format!("drop the column {name}");
        parts.push(removal_step(purpose, "drop_column", &placeholders));
    }
    Ok(Removal {
        steps: in_one_step(&parts).into_iter().collect(),
        kept: kept_columns(queue, &kept).into_iter().collect(),
    })
}

/// Returns one step that runs all of `parts`, each with its purpose as a comment. `None`: there are none.
fn in_one_step(parts: &[Step]) -> Option<Step> {
    // A name may hold a line break, which would end the comment.
    let sql = parts.iter().map(|part| {
        let purpose = part.purpose.replace('\n', " ");
        format!("-- {purpose}\n{}", part.sql)
    });
    let sql = sql.collect::<Vec<_>>().join(";\n");
    let purpose = "drop the columns and indexes that lease-broker added".to_owned();
    (!parts.is_empty()).then(|| Step::once(purpose, sql).reading_all_rows())
}

/// Returns the step that keeps the highest fencing token of the table.
pub(super) fn keep_fence(placeholders: &Placeholders, queue: &QueueSpec) -> Step {
    let values = [("recorded_table", text_literal(&queue.table))];
    let placeholders = with(placeholders, values);
    removal_step(keep_fence_purpose(), "keep_fence", &placeholders).reading_all_rows()
}

/// Reads the highest fencing token of the table.
pub(super) fn highest_fence(
    connection: &Connection,
    placeholders: &Placeholders,
) -> Result<i64, StoreError> {
    let (fence, table) = (&placeholders["lease_fence"], &placeholders["table"]);
    let highest = format!("SELECT COALESCE(max({fence}), 0) FROM {table}");
    Ok(connection.query_row(&highest, [], |row| row.get(0))?)
}

/// Returns the step that drops the index `name` of `table`.
pub(super) fn drop_index(
    purpose: String,
    placeholders: &Placeholders,
    table: &str,
    name: &str,
) -> Step {
    let placeholders = added_parts::naming(placeholders, table, name);
    let placeholders = with(&placeholders, [("index", quote(name))]);
    removal_step(purpose, "drop_index", &placeholders)
}

/// Counts the leases of the queue that are held, up to 1,000.
pub(super) fn held_leases(connection: &Connection, queue: &QueueSpec) -> Result<i64, StoreError> {
    let table = Table::read(connection, &queue.table)?;
    let has = |column| {
        let name = queue.soft_lock.name(column);
        table
            .as_ref()
            .is_some_and(|table| table.column(name).is_some())
    };
    if !has(SoftLockColumn::State) || !has(SoftLockColumn::DueTime) {
        return Ok(0);
    }
    let count = render_removal("held_leases", &placeholders::of_queue(queue));
    Ok(connection.query_row(&count, [system_clock()()], |row| row.get(0))?)
}
