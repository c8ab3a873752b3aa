//! Decides if a lease can change more of a row than its soft-lock columns.
//!
//! If it cannot, a claim returns the values that it read when it picked the row, and saves a second read.

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::Connection;

use super::queue_statements::QueueStatements;

/// The answers for the queues' tables, kept until the schema of the database changes.
#[derive(Default)]
pub(super) struct LeaseEffects {
    /// By the name of the queue: the version of the schema, and whether a lease can change data columns.
    known: RefCell<HashMap<String, (i64, bool)>>,
}

impl LeaseEffects {
    /// Returns whether a lease on an item of `queue` can change data columns: the queue has mirror columns, or the table has
    /// a trigger or a generated column.
    ///
    /// Other programs can add triggers at any time. Runs in a transaction, so the answer holds until its end.
    pub(super) fn reach_data(
        &self,
        connection: &Connection,
        queue: &QueueStatements,
    ) -> rusqlite::Result<bool> {
        let version = "SELECT schema_version FROM pragma_schema_version";
        let version: i64 = connection
            .prepare_cached(version)?
            .query_row([], |row| row.get(0))?;
        let mut known = self.known.borrow_mut();
        if let Some((_, reached)) = known.get(&queue.spec.name).filter(|(at, _)| *at == version) {
            return Ok(*reached);
        }
        let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE)
            OR EXISTS (SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden <> 0)";
        let by_table: bool = connection.query_row(sql, [&queue.spec.table], |row| row.get(0))?;
        let reached = by_table || !queue.spec.mirror.is_empty();
        known.insert(queue.spec.name.clone(), (version, reached));
        Ok(reached)
    }
}
