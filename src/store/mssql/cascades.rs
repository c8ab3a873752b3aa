//! The triggers of other tables that a deletion of a row reaches: foreign keys with ON DELETE CASCADE, SET NULL or SET DEFAULT
//! delete or change the rows that refer to it, and that runs the triggers of their tables.

use std::collections::HashSet;

use super::connection::Connection;
use super::decode::{integer, optional_text};
use crate::StoreError;

/// Reads the table `@P1` (kind 0), the enabled foreign keys that change rows (kind 1: the table that refers, and the one that it
/// refers to), and the enabled triggers (kind 2: the table, and the name of table and trigger). All of the database: the chain of
/// foreign keys can be long, and few of them change rows.
const GRAPH: &str = "SELECT 0 AS lb_kind, OBJECT_ID(@P1) AS lb_id, 0 AS lb_to,
    CAST(NULL AS nvarchar(300)) AS lb_table, CAST(NULL AS nvarchar(128)) AS lb_name
UNION ALL
SELECT 1, f.parent_object_id, f.referenced_object_id, NULL, NULL
FROM sys.foreign_keys AS f
WHERE f.is_disabled = 0 AND (f.delete_referential_action <> 0 OR f.update_referential_action <> 0)
UNION ALL
SELECT 2, g.parent_id, 0, CONCAT(OBJECT_SCHEMA_NAME(g.parent_id), N'.', OBJECT_NAME(g.parent_id)), CAST(g.name AS nvarchar(128))
FROM sys.triggers AS g
WHERE g.is_disabled = 0 AND g.parent_id <> 0";

/// A trigger of a table that refers to the queue's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CascadeTrigger {
    /// The table of the trigger.
    pub(super) table: String,
    pub(super) name: String,
}

/// Returns the triggers that a deletion from `table` reaches, without those of the table itself.
pub(super) async fn triggers(
    connection: &mut Connection,
    table: &str,
) -> Result<Vec<CascadeTrigger>, StoreError> {
    let rows = connection.query(GRAPH, &[&table]).await?;
    let mut reached = HashSet::new();
    let mut start = None;
    let (mut keys, mut triggers) = (Vec::new(), Vec::new());
    for row in rows.iter().flatten() {
        let id = integer(row, 1)?;
        match integer(row, 0)? {
            0 => start = Some(id),
            1 => keys.push((id, integer(row, 2)?)),
            _ => {
                let [table, name] = [optional_text(row, 3)?, optional_text(row, 4)?];
                let trigger = CascadeTrigger {
                    table: table.unwrap_or_default(),
                    name: name.unwrap_or_default(),
                };
                triggers.push((id, trigger));
            }
        }
    }
    reached.extend(start);
    // Each round reaches at least one more table, or is the last.
    loop {
        let before = reached.len();
        let next = keys.iter().filter(|(_, to)| reached.contains(to));
        let next: Vec<i64> = next.map(|(from, _)| *from).collect();
        reached.extend(next);
        if reached.len() == before {
            break;
        }
    }
    if let Some(start) = start {
        reached.remove(&start);
    }
    let triggers = triggers.into_iter();
    Ok(triggers
        .filter(|(id, _)| reached.contains(id))
        .map(|(_, trigger)| trigger)
        .collect())
}
