//! Finds an item with which a user can try a queue.

use super::catalogue::Column;
use super::decode::{integer, result_set};
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use super::quote::quote_table;
use crate::example_item::{Candidate, example};
use crate::{NewItem, QueueIndex, StoreError};

/// Reads the columns of the table `@P1` in their order, one per row: its name, whether it has a default, whether it is in a
/// unique index or in a foreign key, and the number of CHECK constraints and triggers of the table, which can refuse any value.
const COLUMNS: &str = "SELECT CAST(c.name AS nvarchar(128)) AS lb_name,
    CASE WHEN c.default_object_id <> 0 THEN 1 ELSE 0 END,
    CASE WHEN EXISTS (SELECT * FROM sys.index_columns AS k
        INNER JOIN sys.indexes AS i ON i.object_id = k.object_id AND i.index_id = k.index_id
        WHERE k.object_id = c.object_id AND k.column_id = c.column_id AND i.is_unique = 1)
        OR EXISTS (SELECT * FROM sys.foreign_key_columns AS f
        WHERE f.parent_object_id = c.object_id AND f.parent_column_id = c.column_id) THEN 1 ELSE 0 END,
    (SELECT COUNT(*) FROM sys.check_constraints AS r WHERE r.parent_object_id = c.object_id)
        + (SELECT COUNT(*) FROM sys.triggers AS g WHERE g.parent_id = c.object_id)
FROM sys.columns AS c
WHERE c.object_id = OBJECT_ID(@P1)
ORDER BY c.column_id";

impl MssqlOperations {
    /// Returns columns and values of an example. See [`Facts::example_item`](crate::Facts::example_item).
    pub(super) async fn example_item(
        &self,
        queue: QueueIndex,
    ) -> Result<Option<Vec<(String, String)>>, StoreError> {
        let queue = self.queue(queue)?;
        let object = quote_table(&queue.spec.table);
        let results = self.query_idempotent(COLUMNS, &[&object]).await?;
        let mut candidates = Vec::new();
        for row in result_set(&results, 0)? {
            if integer(row, 3)? > 0 {
                return Ok(None);
            }
            let name: Option<&str> = row.try_get(0)?;
            let Some(column) = insertable(queue, name.unwrap_or_default()) else {
                continue;
            };
            let is_key = queue.key.iter().any(|part| part.name == column.name);
            candidates.push(Candidate {
                column,
                is_required: integer(row, 1)? == 0 && (is_key || !column.nullable),
                is_restricted: integer(row, 2)? > 0,
            });
        }
        let accepts = |item: &NewItem| queue.encode_item(item).is_ok();
        example(&candidates, |_| Ok(None), accepts)
    }
}

/// Returns the column that a new item can set. Babelfish returns names in lower case.
fn insertable<'a>(queue: &'a QueueStatements, name: &str) -> Option<&'a Column> {
    queue.insertable.get(name).or_else(|| {
        let mut columns = queue.insertable.values();
        columns.find(|column| column.name.eq_ignore_ascii_case(name))
    })
}
