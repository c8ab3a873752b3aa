//! Reads and writes the record of the columns and indexes that adoption added to a table.

use lease_broker_model::queue::QueueSpec;

use super::adopt_sql::render;
use super::connection::Connection;
use super::decode;
use super::quote::{quote_table, text_literal};
use crate::StoreError;
use crate::added_parts::{AddedParts, RECORD_TABLES};
use crate::adoption::{self, with};
use crate::template::Placeholders;

/// Reads the record of a table. It is empty if the database has no record.
pub(super) async fn read(
    connection: &mut Connection,
    table: &str,
) -> Result<AddedParts, StoreError> {
    for record in RECORD_TABLES {
        if !exists(connection, record).await? {
            return Ok(AddedParts::default());
        }
    }
    let record = render("read_record", &naming(&Placeholders::new(), table, ""));
    let results = connection.batch(&record).await?;
    let (mut parts, mut first_fence) = (Vec::new(), 0);
    for row in results.iter().flatten() {
        match decode::optional_text(row, 0)? {
            Some(kind) => parts.push((kind, decode::text(row, 1)?)),
            None => first_fence = decode::integer(row, 2)?,
        }
    }
    Ok(AddedParts::new(parts, first_fence))
}

/// Returns whether the database has the broker's own table `name`.
pub(super) async fn exists(connection: &mut Connection, name: &str) -> Result<bool, StoreError> {
    let found = format!(
        "SELECT CASE WHEN OBJECT_ID({}) IS NULL THEN 0 ELSE 1 END",
        text_literal(name)
    );
    let results = connection.batch(&found).await?;
    Ok(decode::integer(decode::single_row(&results, 0)?, 0)? == 1)
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
    let object = text_literal(&quote_table(table));
    let placeholders = with(
        placeholders,
        [("object_literal", object), ("name", text_literal(name))],
    );
    let recorded_table = render("recorded_table", &placeholders);
    with(&placeholders, [("recorded_table", recorded_table)])
}
