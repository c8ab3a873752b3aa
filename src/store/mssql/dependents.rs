//! Objects that depend on a queue's table: foreign keys that refer to it, and indexed views.

use lease_broker_model::queue::QueueSpec;

use super::connection::Connection;
use super::decode::{integer, optional_text};
use super::quote::quote_table;
use crate::StoreError;
use crate::foreign_keys::{self, ForeignKey, OnDelete};

/// Reads the dependents of the table `@P1`, one per row: kind, table or view, foreign key, `delete_referential_action`. A
/// view is indexed if it has a clustered index. Babelfish has no indexed views, and its list of dependencies is empty.
const DEPENDENTS: &str =
    "SELECT 0 AS lb_kind, CONCAT(OBJECT_SCHEMA_NAME(v.object_id), N'.', v.name) AS lb_name,
    NULL AS lb_key, 0 AS lb_action
FROM sys.views AS v
WHERE EXISTS (SELECT * FROM sys.indexes AS i WHERE i.object_id = v.object_id AND i.index_id = 1)
    AND EXISTS (SELECT * FROM sys.sql_expression_dependencies AS d
        WHERE d.referencing_id = v.object_id AND d.referenced_id = OBJECT_ID(@P1))
UNION ALL
SELECT 1, OBJECT_SCHEMA_NAME(f.parent_object_id) + N'.' + OBJECT_NAME(f.parent_object_id),
    CAST(f.name AS nvarchar(128)), CONVERT(int, f.delete_referential_action)
FROM sys.foreign_keys AS f
WHERE f.referenced_object_id = OBJECT_ID(@P1) AND f.is_disabled = 0
ORDER BY lb_kind, lb_name, lb_key";

/// Returns one warning for each dependent that affects the queue.
pub(super) async fn warnings(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<String>, StoreError> {
    let object = quote_table(&queue.table);
    let results = connection.query(DEPENDENTS, &[&object]).await?;
    let (mut warnings, mut keys) = (Vec::new(), Vec::new());
    for row in results.iter().flatten() {
        let name = optional_text(row, 1)?;
        match integer(row, 0)? {
            0 => warnings.push(indexed_view(&name.unwrap_or_default())),
            _ => keys.push(ForeignKey {
                table: name,
                name: optional_text(row, 2)?,
                on_delete: match integer(row, 3)? {
                    0 => OnDelete::Refuse,
                    1 => OnDelete::Cascade,
                    _ => OnDelete::Change,
                },
            }),
        }
    }
    warnings.extend(foreign_keys::warnings(queue, &keys));
    Ok(warnings)
}

fn indexed_view(name: &str) -> String {
    format!(
        "the indexed view {name} reads the table: if it groups the items by a column that changes with their state, all \
         transitions wait for each other at one row of the view"
    )
}

#[cfg(test)]
mod tests {
    use lease_broker_model::queue::OnComplete;

    use super::*;
    use crate::test_queue::spec;

    #[test]
    fn table_that_the_login_does_not_see_is_not_named() {
        let mut queue = spec("item");
        queue.on_complete = OnComplete::Delete;
        let key = ForeignKey {
            table: None,
            name: Some("child_key".to_owned()),
            on_delete: OnDelete::Refuse,
        };
        let warnings = foreign_keys::warnings(&queue, &[key]);
        let text = "the foreign key child_key refers to table";
        assert!(warnings[0].starts_with(text), "{warnings:?}");
    }
}
