//! Reads and writes the record of the columns and indexes that adoption added to a table.

use lease_broker_model::queue::QueueSpec;
use rusqlite::{Connection, OptionalExtension as _};

use super::adopt_sql::render;
use super::quote::text_literal;
use crate::StoreError;
use crate::added_parts::{AddedParts, RECORD_TABLES};
use crate::adoption::{self, with};
use crate::template::Placeholders;

/// Reads the record of a table. It is empty if the file has no record.
pub(super) fn read(connection: &Connection, table: &str) -> Result<AddedParts, StoreError> {
    let find = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN (?1, ?2)";
    let tables: i64 = connection.query_row(find, RECORD_TABLES, |row| row.get(0))?;
    if tables < 2 {
        return Ok(AddedParts::default());
    }
    let none = Placeholders::new();
    let mut parts = connection.prepare(&render("read_record", &none))?;
    let parts = parts.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let parts = parts.collect::<rusqlite::Result<_>>()?;
    let fence = connection.query_row(&render("read_fence", &none), [table], |row| row.get(0));
    Ok(AddedParts::new(parts, fence.optional()?.unwrap_or(0)))
}

/// Returns `placeholders` with the statement that records the column or index `name` of `table`. See [`adoption::recording`].
pub(super) fn recording(
    placeholders: &Placeholders,
    queue: &QueueSpec,
    table: &str,
    kind: &str,
    name: &str,
) -> Placeholders {
    let placeholders = naming(placeholders, table, name);
    adoption::recording(placeholders, queue, text_literal(kind), render)
}

/// Returns `placeholders` with the names of a table and of one of its parts, as the record has them.
pub(super) fn naming(placeholders: &Placeholders, table: &str, name: &str) -> Placeholders {
    let values = [
        ("recorded_table", text_literal(table)),
        ("name", text_literal(name)),
    ];
    with(placeholders, values)
}
