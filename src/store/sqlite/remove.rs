//! Removal: drops from a table the indexes and the soft-lock columns that adoption added.

use rusqlite::Connection;

use super::adopt_sql::step;
use super::catalogue::Table;
use super::index::drop_index_placeholders;
use super::placeholders;
use super::quote::quote;
use crate::queue::QueueSpec;
use crate::store::StoreError;
use crate::store::adoption::{refuse_managed, removable_columns, with};
use crate::store::index_role::IndexRole;
use crate::store::schema::Step;

/// Plans the removal. Indexes come first, because `SQLite` does not drop a column that an index uses.
pub(super) fn plan(connection: &Connection, queue: &QueueSpec) -> Result<Vec<Step>, StoreError> {
    refuse_managed(queue)?;
    let Some(table) = Table::read(connection, &queue.table)? else {
        return Ok(Vec::new());
    };
    let placeholders = placeholders::of_queue(queue);
    let indexes = IndexRole::ALL
        .into_iter()
        .filter(|role| {
            let name = role.index_name(queue, &queue.table);
            table.index(&name).is_some()
        })
        .map(|role| {
            let placeholders = drop_index_placeholders(role, &placeholders);
            let purpose = format!("drop the {} index", role.name());
            step(purpose, "drop_index", &placeholders)
        });
    let columns = removable_columns(queue, &table).map(|name| {
        let placeholders = with(&placeholders, [("column", quote(name))]);
        step(
            format!("drop the column {name}"),
            "drop_column",
            &placeholders,
        )
    });
    Ok(indexes.chain(columns).collect())
}
