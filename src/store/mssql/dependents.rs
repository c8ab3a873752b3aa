//! Objects that depend on a queue's table and make its transitions slower: indexed views, and tables whose rows are deleted with
//! its rows.

use super::connection::Connection;
use super::decode::integer;
use super::quote::quote_table;
use crate::queue::{OnComplete, QueueSpec};
use crate::store::StoreError;

/// Reads the dependents of the table `@P1`: number and name, one per row. A view is indexed if it has an index.
const DEPENDENTS: &str = "SELECT 0 AS lb_kind, CONCAT(OBJECT_SCHEMA_NAME(v.object_id), N'.', v.name) AS lb_name
FROM sys.views AS v
WHERE EXISTS (SELECT * FROM sys.indexes AS i WHERE i.object_id = v.object_id AND i.index_id = 1)
    AND EXISTS (SELECT * FROM sys.sql_expression_dependencies AS d
        WHERE d.referencing_id = v.object_id AND d.referenced_id = OBJECT_ID(@P1))
UNION ALL
SELECT 1, CONCAT(OBJECT_SCHEMA_NAME(f.parent_object_id), N'.', OBJECT_NAME(f.parent_object_id))
FROM sys.foreign_keys AS f
WHERE f.referenced_object_id = OBJECT_ID(@P1) AND f.delete_referential_action = 1 AND f.is_disabled = 0";

/// Returns one sentence for each dependent. Babelfish has no indexed views, and it is not asked.
pub(super) async fn advice(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<String>, StoreError> {
    if connection.server_info.babelfish {
        return Ok(Vec::new());
    }
    let object = quote_table(&queue.table);
    let results = connection.query(DEPENDENTS, &[&object]).await?;
    let mut advice = Vec::new();
    for row in results.iter().flatten() {
        let name: Option<&str> = row.try_get(1)?;
        advice.extend(sentence(queue, integer(row, 0)?, name.unwrap_or_default()));
    }
    Ok(advice)
}

/// Returns the advice about one dependent. `None`: it does not affect this queue.
fn sentence(queue: &QueueSpec, kind: i64, name: &str) -> Option<String> {
    let removes_rows = matches!(
        queue.on_complete,
        OnComplete::Delete | OnComplete::Archive(_)
    );
    match kind {
        0 => Some(format!(
            "check the indexed view {name}: if it groups the items by a column that changes with their state, all transitions \
             wait for each other at one row of the view"
        )),
        1 if removes_rows => Some(format!(
            "check the table {name}: its foreign key has ON DELETE CASCADE, so each completion deletes and locks its rows too; \
             without an index on the foreign key's columns each completion reads the whole table"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;

    #[test]
    fn cascade_matters_only_if_completion_removes_rows() {
        let mut queue = spec("item");
        assert_eq!(sentence(&queue, 1, "dbo.part"), None);
        queue.on_complete = OnComplete::Delete;
        let advice = sentence(&queue, 1, "dbo.part");
        assert!(advice.is_some_and(|advice| advice.contains("the table dbo.part")));
    }

    #[test]
    fn indexed_view_is_named() {
        let advice = sentence(&spec("item"), 0, "dbo.counts");
        assert!(advice.is_some_and(|advice| advice.contains("the indexed view dbo.counts")));
    }
}
