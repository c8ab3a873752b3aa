//! Removal: drops from a table the indexes and the soft-lock columns that adoption added.

use super::adopt_sql::step;
use super::catalogue::Table;
use super::connection::Connection;
use super::quote::{quote, quote_table, text_literal};
use super::{index, placeholders};
use crate::queue::QueueSpec;
use crate::store::StoreError;
use crate::store::adoption::{refuse_managed, removable_columns, with};
use crate::store::schema::Step;

/// Reads the default constraints of a table's columns. A constraint has to be dropped before its column.
const DEFAULTS: &str = "SELECT c.name, d.name FROM sys.default_constraints AS d
    INNER JOIN sys.columns AS c ON c.object_id = d.parent_object_id AND c.column_id = d.parent_column_id
WHERE d.parent_object_id = OBJECT_ID(@P1)";

/// Plans the removal. The order is: indexes, then each column after its default.
pub(super) async fn plan(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<Step>, StoreError> {
    refuse_managed(queue)?;
    let Some(table) = Table::read(connection, &queue.table).await? else {
        return Ok(Vec::new());
    };
    let placeholders = placeholders::of_queue(queue);
    let mut steps = Vec::new();
    for role in index::roles(queue) {
        let name = index::name(role, queue);
        if index::named(&table, &name).is_some() {
            let placeholders = with(&placeholders, [("index", quote(&name))]);
            let purpose = format!("drop the {} index", role.name());
            steps.push(step(purpose, "drop_index", &placeholders));
        }
    }
    let mut defaults = Vec::new();
    // Babelfish lists default constraints under names that it does not recognize, and drops a default with its column.
    if !connection.server_info.babelfish {
        let object = quote_table(&queue.table);
        let rows = connection.query(DEFAULTS, &[&object]).await?;
        for row in rows.iter().flatten() {
            let (column, name): (Option<&str>, Option<&str>) = (row.try_get(0)?, row.try_get(1)?);
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            defaults.push((text(column), text(name)));
        }
    }
    for name in removable_columns(queue, &table) {
        let of_column = |(column, _): &&(String, String)| column.eq_ignore_ascii_case(name);
        if let Some((_, constraint)) = defaults.iter().find(of_column) {
            let placeholders = with(&placeholders, [("constraint", quote(constraint))]);
            let purpose = format!("drop the default of {name}");
            steps.push(step(purpose, "drop_default", &placeholders));
        }
        let values = [
            ("column", quote(name)),
            ("column_literal", text_literal(name)),
        ];
        let purpose = format!("drop the column {name}");
        steps.push(step(purpose, "drop_column", &with(&placeholders, values)));
    }
    Ok(steps)
}
