//! The record of the columns and indexes that adoption added to a table. Removal drops recorded parts and nothing else.
//!
//! The database keeps the record in the table `lease_broker_added`. The step that adds or drops a part writes its row too, in
//! the same transaction; on SQL Server an index is recorded before it is created (`sql/mssql/adopt.sql` says why). A second table, `lease_broker_fence`, keeps the highest fencing token of each table whose soft-lock columns
//! were dropped. The next adoption of the table counts on from it, so that no fencing token is given twice.

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};

use super::epoch::fence_now;
use super::table::Table;

/// The tables that hold the record.
pub(super) const RECORD_TABLES: [&str; 2] = ["lease_broker_added", "lease_broker_fence"];

/// The record of one table.
#[derive(Debug, Default)]
pub(super) struct AddedParts {
    /// Whether the database has the tables of the record.
    pub(super) has_tables: bool,
    columns: Vec<String>,
    indexes: Vec<String>,
    /// The fencing token that every row begins with: the highest that was given before the columns were dropped last. 0 if they
    /// were never dropped.
    pub(super) first_fence: i64,
}

impl AddedParts {
    /// Returns a record whose tables exist. `parts` are pairs of kind and name, as the database keeps them.
    pub(super) fn new(parts: Vec<(String, String)>, first_fence: i64) -> Self {
        let (columns, indexes): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|(kind, _)| kind == "column");
        let names =
            |parts: Vec<(String, String)>| parts.into_iter().map(|(_, name)| name).collect();
        Self {
            has_tables: true,
            columns: names(columns),
            indexes: names(indexes),
            first_fence,
        }
    }

    /// Leaves out the record of this queue's columns if the table lacks one of them. Then this is probably another table under
    /// the same name, such as one that was restored from a backup, and its columns are its own. Returns the columns that the table
    /// lacks. If there are any, the first fencing token becomes that of a new epoch, because the tokens of the earlier
    /// table are unknown.
    pub(super) fn forget_replaced_table<Kind>(
        &mut self,
        queue: &QueueSpec,
        table: &Table<Kind>,
    ) -> Vec<String> {
        // The owner can have dropped a column that the queue no longer uses.
        let is_used = |name: &&String| {
            let mut used = queue.soft_lock_names();
            used.any(|used| used.eq_ignore_ascii_case(name))
        };
        let recorded = self.columns.iter().filter(is_used);
        let lacking = recorded.filter(|name| table.column(name).is_none());
        let lacking: Vec<String> = lacking.cloned().collect();
        if !lacking.is_empty() {
            self.columns.retain(|name| !queue.soft_lock.contains(name));
            self.first_fence = self.first_fence.max(fence_now());
        }
        lacking
    }

    /// Returns whether the table has every recorded column. If not, it is probably another table, as in
    /// [`Self::forget_replaced_table`].
    pub(super) fn has_all_columns_in<Kind>(&self, table: &Table<Kind>) -> bool {
        let mut columns = self.columns.iter();
        columns.all(|name| table.column(name).is_some())
    }

    /// Returns whether adoption added the column `name`.
    pub(super) fn has_column(&self, name: &str) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| column.eq_ignore_ascii_case(name))
    }

    /// Returns whether adoption added the index `name`.
    pub(super) fn has_index(&self, name: &str) -> bool {
        let mut indexes = self.indexes.iter();
        indexes.any(|index| index.eq_ignore_ascii_case(name))
    }

    /// Returns whether the table had the column of the state before the adoption, so that it can hold any value.
    pub(super) fn has_own_state<Kind>(&self, queue: &QueueSpec, table: &Table<Kind>) -> bool {
        let name = queue.soft_lock.name(SoftLockColumn::State);
        table.column(name).is_some() && !self.has_column(name)
    }

    /// Returns one sentence for each column of the table that has the name of a soft-lock column, although neither the adoption
    /// added it nor the configuration names it. Such a column belongs to another program, and adoption must not take it.
    ///
    /// A table that has all soft-lock columns and none of them on record was prepared by hand, or restored without the broker's
    /// tables. It is accepted as it is.
    pub(super) fn foreign_columns<Kind>(
        &self,
        queue: &QueueSpec,
        table: &Table<Kind>,
    ) -> Vec<String> {
        let name = |column: SoftLockColumn| queue.soft_lock.name(column);
        let mut core = SoftLockColumn::ALL
            .into_iter()
            .filter(|column| *column != SoftLockColumn::Checkpoint);
        if core.all(|column| table.column(name(column)).is_some() && !self.has_column(name(column)))
        {
            return Vec::new();
        }
        let is_foreign = |column: &SoftLockColumn| {
            table.column(name(*column)).is_some()
                && !self.has_column(name(*column))
                && !queue.soft_lock.is_mapped(*column)
        };
        let foreign = queue.soft_lock_columns().filter(is_foreign);
        foreign
            .map(|column| {
                let default_name = column.default_name();
                format!(
                    "table {:?} already has a column {default_name:?}, which lease-broker did not add: give the broker's column \
                     another name (soft_lock.{default_name} = \"lb_{default_name}\" in the settings of queue {:?}), or, if the \
                     column is meant for the broker, confirm its name (soft_lock.{default_name} = {default_name:?})",
                    queue.table, queue.name
                )
            })
            .collect()
    }

    /// Returns the soft-lock columns that removal drops, and those that the table has and removal keeps.
    pub(super) fn removable_columns<Kind>(
        &self,
        queue: &QueueSpec,
        table: &Table<Kind>,
    ) -> (Vec<SoftLockColumn>, Vec<SoftLockColumn>) {
        let name = |column: SoftLockColumn| queue.soft_lock.name(column);
        let existing = SoftLockColumn::ALL
            .into_iter()
            .filter(|column| table.column(name(*column)).is_some());
        existing.partition(|column| self.has_column(name(*column)))
    }
}
