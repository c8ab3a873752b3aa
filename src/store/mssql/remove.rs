//! Takes from a table what made it a queue.

use super::adopt::{step, with};
use super::catalogue::Table;
use super::connection::Connection;
use super::index::IndexRole;
use super::placeholders::queue_placeholders;
use super::quote::{literal, quote, quote_table};
use crate::queue::QueueSpec;
use crate::store::StoreError;
use crate::store::schema::{Step, own_columns, refuse_managed};
use crate::value::Value;

/// A column's default is a constraint of its own, which has to go first.
const DEFAULTS: &str = "SELECT c.name, d.name FROM sys.default_constraints AS d
    INNER JOIN sys.columns AS c ON c.object_id = d.parent_object_id AND c.column_id = d.parent_column_id
WHERE d.parent_object_id = OBJECT_ID(@P1)";

/// Plans it.
pub(super) async fn plan(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<Step>, StoreError> {
    refuse_managed(queue)?;
    let Some(table) = Table::read(connection, &queue.table).await? else {
        return Ok(Vec::new());
    };
    let placeholders = queue_placeholders(queue);
    let mut steps = Vec::new();
    for role in IndexRole::of(queue) {
        let name = role.index_name(queue);
        if table.index_named(&name).is_some() {
            let placeholders = with(placeholders.clone(), "index", quote(&name));
            steps.push(step(
                format!("drop the {} index", role.name()),
                "drop_index",
                &placeholders,
            ));
        }
    }
    let mut defaults = Vec::new();
    // Babelfish lists constraints that it does not know, and drops a default with its column.
    if !connection.server_info.babelfish {
        let object = quote_table(&queue.table);
        for row in connection
            .query(DEFAULTS, &[&object])
            .await?
            .iter()
            .flatten()
        {
            let (column, name): (Option<&str>, Option<&str>) = (row.try_get(0)?, row.try_get(1)?);
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            defaults.push((text(column), text(name)));
        }
    }
    for name in own_columns(queue).filter(|name| table.column(name).is_some()) {
        let of_column = |(column, _): &&(String, String)| column.eq_ignore_ascii_case(name);
        if let Some((_, constraint)) = defaults.iter().find(of_column) {
            let placeholders = with(placeholders.clone(), "constraint", quote(constraint));
            steps.push(step(
                format!("drop the default of {name}"),
                "drop_default",
                &placeholders,
            ));
        }
        let mut placeholders = with(placeholders.clone(), "column", quote(name));
        placeholders.insert("column_literal", literal(&Value::Text(name.to_owned())));
        steps.push(step(
            format!("drop the column {name}"),
            "drop_column",
            &placeholders,
        ));
    }
    Ok(steps)
}
