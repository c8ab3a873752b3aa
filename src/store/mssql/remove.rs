//! Removal: drops from a table the indexes and the soft-lock columns that adoption added and recorded.

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};

use super::added_parts::{self, naming};
use super::adopt_sql::{removal_step, render_removal};
use super::catalogue::Table;
use super::connection::Connection;
use super::quote::{quote, quote_table, text_literal};
use super::{decode, index, placeholders};
use crate::StoreError;
use crate::adoption::{archive_name, keep_fence_purpose, kept_columns, refuse_managed, with};
use crate::index_role::IndexRole;
use crate::schema::{Removal, Step};
use crate::template::Placeholders;

/// Reads the default constraints of a table's columns. A constraint has to be dropped before its column.
const DEFAULTS: &str = "SELECT c.name, d.name FROM sys.default_constraints AS d
    INNER JOIN sys.columns AS c ON c.object_id = d.parent_object_id AND c.column_id = d.parent_column_id
WHERE d.parent_object_id = OBJECT_ID(@P1)";

/// Plans the removal. The order is: indexes, then each column after its default.
pub(super) async fn plan(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Removal, StoreError> {
    refuse_managed(queue)?;
    let mut removal = Removal::default();
    let Some(table) = Table::read(connection, &queue.table).await? else {
        return Ok(removal);
    };
    let placeholders = placeholders::of_queue(queue);
    let mut added = added_parts::read(connection, &queue.table).await?;
    added.forget_replaced_table(queue, &table);
    // Also those of an earlier configuration, because a column cannot go while an index holds it.
    for role in IndexRole::ALL {
        for name in index::both_names(role, queue) {
            if index::named(&table, &name).is_some() && added.has_index(&name) {
                let purpose = format!("drop the {} index", role.name());
                let step = drop_index(purpose, &placeholders, &queue.table, &name);
                removal.steps.push(step);
            }
        }
    }
    if let Some(archive) = archive_name(queue) {
        let name = index::archive_name(queue, archive);
        let recorded = added_parts::read(connection, archive)
            .await?
            .has_index(&name);
        let archived = Table::read(connection, archive).await?;
        if recorded && archived.is_some_and(|table| index::named(&table, &name).is_some()) {
            let purpose = format!("drop the index by time of the archive table {archive}");
            let step = drop_index(purpose, &placeholders, archive, &name);
            removal.steps.push(step);
        }
    }
    let defaults = defaults(connection, queue).await?;
    let (dropped, kept) = added.removable_columns(queue, &table);
    // The columns of a queue without a record: the login may not see it.
    if !added.has_tables
        && SoftLockColumn::ALL[..9]
            .iter()
            .all(|column| kept.contains(column))
    {
        return Err(StoreError::Misconfigured(format!(
            "it is not known which parts of table {:?} lease-broker added: lease_broker_added and lease_broker_fence, which record it, \
             do not exist, or the login has no right on them: use the login that runs `schema apply`",
            queue.table
        )));
    }
    if !dropped.is_empty() && table.has_triggers && connection.server_info.babelfish {
        return Err(StoreError::Misconfigured(format!(
            "table {:?} has triggers, and Babelfish drops them when a column is dropped: drop the triggers yourself, and create \
             them again afterwards",
            queue.table
        )));
    }
    let steps = drop_columns(queue, &dropped, &defaults);
    removal.steps.extend(steps);
    removal.kept.extend(kept_columns(queue, &kept));
    Ok(removal)
}

/// Returns the steps that drop soft-lock columns. `defaults` are their default constraints, by column.
pub(super) fn drop_columns(
    queue: &QueueSpec,
    columns: &[SoftLockColumn],
    defaults: &[(String, String)],
) -> Vec<Step> {
    let placeholders = placeholders::of_queue(queue);
    let mut steps = Vec::new();
    for &column in columns {
        let name = queue.soft_lock.name(column);
        let placeholders = with(
            &naming(&placeholders, &queue.table, name),
            [
                ("column", quote(name)),
                ("column_literal", text_literal(name)),
            ],
        );
        if column == SoftLockColumn::Fence {
            steps.push(keep_fence(queue));
        }
        let of_column = |(column, _): &&(String, String)| column.eq_ignore_ascii_case(name);
        if let Some((_, constraint)) = defaults.iter().find(of_column) {
            let placeholders = with(&placeholders, [("constraint", quote(constraint))]);
            let purpose = format!("drop the default of {name}");
            let step = removal_step(purpose, "drop_default", &placeholders);
            steps.push(step);
        }
        let purpose = format!("drop the column {name}");
        let step = removal_step(purpose, "drop_column", &placeholders);
        steps.push(step);
    }
    steps
}

/// Returns the step that keeps the highest fencing token of the table.
pub(super) fn keep_fence(queue: &QueueSpec) -> Step {
    let name = queue.soft_lock.name(SoftLockColumn::Fence);
    let values = [
        ("column", quote(name)),
        ("column_literal", text_literal(name)),
    ];
    let placeholders = naming(&placeholders::of_queue(queue), &queue.table, name);
    let placeholders = with(&placeholders, values);
    let read = render_removal("read_fence", &placeholders);
    let placeholders = with(&placeholders, [("read_fence_literal", text_literal(&read))]);
    removal_step(keep_fence_purpose(), "keep_fence", &placeholders).reading_all_rows()
}

/// Reads the highest fencing token of the table.
pub(super) async fn highest_fence(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<i64, StoreError> {
    let fence = quote(queue.soft_lock.name(SoftLockColumn::Fence));
    let table = quote_table(&queue.table);
    let highest = format!("SELECT COALESCE(MAX(t.{fence}), 0) FROM {table} AS t");
    let results = connection.batch(&highest).await?;
    decode::integer(decode::single_row(&results, 0)?, 0)
}

/// Returns the step that drops the index `name` of `table`.
pub(super) fn drop_index(
    purpose: String,
    placeholders: &Placeholders,
    table: &str,
    name: &str,
) -> Step {
    let values = [
        ("index", quote(name)),
        ("indexed_table", quote_table(table)),
    ];
    let placeholders = with(&naming(placeholders, table, name), values);
    removal_step(purpose, "drop_index", &placeholders)
}

/// Returns the default constraints of the table: pairs of a column's name and a constraint's name.
async fn defaults(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<(String, String)>, StoreError> {
    // Babelfish lists default constraints under names that it does not recognize, and drops a default with its column.
    if connection.server_info.babelfish {
        return Ok(Vec::new());
    }
    let object = quote_table(&queue.table);
    let rows = connection.query(DEFAULTS, &[&object]).await?;
    let mut defaults = Vec::new();
    for row in rows.iter().flatten() {
        defaults.push((decode::text(row, 0)?, decode::text(row, 1)?));
    }
    Ok(defaults)
}

/// Counts the leases of the queue that are held, up to 1,000.
pub(super) async fn held_leases(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<i64, StoreError> {
    let table = Table::read(connection, &queue.table).await?;
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
    let results = connection.batch(&count).await?;
    decode::integer(decode::single_row(&results, 0)?, 0)
}
