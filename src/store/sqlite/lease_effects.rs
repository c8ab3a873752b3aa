//! Decides if a lease can change more of a row than its soft-lock columns, and if its change can be left half done.
//!
//! If it cannot change more, a claim returns the values that it read when it picked the row, and saves a second read.

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::Connection;

use super::queue_statements::QueueStatements;
use super::undone_by::UndoneBy;

/// The answers for the queues' tables, kept until the schema of the database changes.
#[derive(Default)]
pub(super) struct LeaseEffects {
    /// By the name of the queue: the version of the schema, and the answer for it.
    known: RefCell<HashMap<String, (i64, Effects)>>,
}

/// The effects of a lease on the data columns of its row.
#[derive(Clone, Copy)]
pub(super) struct Effects {
    /// The lease can change them: the queue has mirror columns, or the table has a trigger or a generated column.
    pub(super) reach_data: bool,
    /// SQLite computes some when they are read, which can fail.
    compute_columns: bool,
    /// The table has triggers.
    pub(super) run_triggers: bool,
}

impl Effects {
    /// Returns the part that undoes the change of a row that refuses its lease, a heartbeat or a release.
    pub(super) const fn undone_by(self) -> UndoneBy {
        if self.compute_columns || self.run_triggers {
            UndoneBy::Savepoint
        } else {
            UndoneBy::Statement
        }
    }
}

impl LeaseEffects {
    /// Returns the effects of a lease on an item of `queue`.
    ///
    /// Other programs can add triggers at any time. Runs in a transaction, so the answer holds until its end.
    pub(super) fn of(
        &self,
        connection: &Connection,
        queue: &QueueStatements,
    ) -> rusqlite::Result<Effects> {
        let version = "SELECT schema_version FROM pragma_schema_version";
        let version: i64 = connection
            .prepare_cached(version)?
            .query_row([], |row| row.get(0))?;
        let mut known = self.known.borrow_mut();
        if let Some((_, effects)) = known.get(&queue.spec.name).filter(|(at, _)| *at == version) {
            return Ok(*effects);
        }
        // 2: a virtual generated column.
        let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE),
            EXISTS (SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden <> 0),
            EXISTS (SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden = 2)";
        let effects = connection.query_row(sql, [&queue.spec.table], |row| {
            let run_triggers = row.get(0)?;
            let has_generated_columns: bool = row.get(1)?;
            Ok(Effects {
                reach_data: run_triggers || has_generated_columns || !queue.spec.mirror.is_empty(),
                compute_columns: row.get(2)?,
                run_triggers,
            })
        })?;
        known.insert(queue.spec.name.clone(), (version, effects));
        Ok(effects)
    }
}
