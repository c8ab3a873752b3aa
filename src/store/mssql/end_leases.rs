//! Ends the leases of a restored table, in a new epoch.

use lease_broker_model::key::Key;
use lease_broker_model::queue::QueueSpec;

use super::catalogue::Table;
use super::connection::Connection;
use super::error::{OperationFailure, into_refusal, of_schema_change};
use super::list_parameters::{ListEntry, ListParameters};
use super::parts::Parts;
use super::queue_statements::QueueStatements;
use super::statement_parts::roll_back_on_error;
use super::{decode, types};
use crate::adoption::with;
use crate::template::{Placeholders, render};
use crate::{Problem, StoreError};

const EPOCH: &str = lease_broker_sql::mssql::EPOCH;
/// The most leases that one batch ends. For more rows SQL Server may lock the whole table (docs/sql-server.md).
const MAX_ROWS: usize = 1_000;

/// Returns the batch that finds the leased rows.
pub(super) fn render_find(placeholders: &Placeholders) -> String {
    render(EPOCH, "find_leased", placeholders)
}

/// Returns the batch that ends the leases of a list.
pub(super) fn render_end(placeholders: &Placeholders, has_triggers: bool) -> String {
    let batch = render(EPOCH, "end_leases", placeholders);
    roll_back_on_error(batch, has_triggers)
}

/// The batches that end the leases of one table.
pub(super) struct EndLeases<'a> {
    queue: &'a QueueSpec,
    fence: i64,
    find: String,
    end: String,
    end_without_mirror: String,
}

/// The leases that were ended, and those that could not be.
#[derive(Default)]
pub(super) struct EndedLeases {
    pub(super) count: u64,
    refused: Vec<(Key, Problem)>,
}

impl<'a> EndLeases<'a> {
    /// `fence`: that of the new epoch. Leases with a greater one stay.
    pub(super) fn new(
        queue: &'a QueueSpec,
        table: &Table,
        placeholders: &Placeholders,
        fence: i64,
    ) -> Self {
        let without_mirror = with(placeholders, [("mirror_ready", String::new())]);
        Self {
            queue,
            fence,
            find: render_find(placeholders),
            end: render_end(placeholders, table.has_triggers),
            end_without_mirror: render_end(&without_mirror, table.has_triggers),
        }
    }

    /// Ends the leases. If a constraint or a trigger refuses this for a row, its mirror columns stay as they are.
    pub(super) async fn run(&self, connection: &mut Connection) -> Result<EndedLeases, StoreError> {
        let results = connection.query(&self.find, &[&self.fence]).await;
        let results = results.map_err(|error| of_schema_change(&error, &self.purpose()))?;
        let rows = decode::result_set(&results, 0)?.iter();
        let keys = rows.map(|row| {
            let values = (0..row.len()).map(|index| types::decode(row.get_column_data(index)?));
            Ok(Key(values.collect::<Result<_, StoreError>>()?))
        });
        let keys = keys.collect::<Result<Vec<_>, StoreError>>()?;
        let mut ended = EndedLeases::default();
        for keys in keys.chunks(MAX_ROWS) {
            let mut parts = Parts::of((0..keys.len()).collect());
            while let Some(part) = parts.next() {
                let entries: Vec<&Key> = part.iter().map(|index| &keys[*index]).collect();
                let result = self.end(connection, &self.end, &entries).await;
                let result = result.map(|count| ended.count += count);
                for (index, _) in parts.end(part, result)? {
                    let key = &keys[index];
                    match self.end(connection, &self.end_without_mirror, &[key]).await {
                        Ok(count) => ended.count += count,
                        Err(StoreError::Rejected(rejection)) => {
                            ended.refused.push((key.clone(), rejection.problem));
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(ended)
    }

    /// Runs one of the batches for these rows. Returns the number of leases that it has ended.
    async fn end(
        &self,
        connection: &mut Connection,
        batch: &str,
        keys: &[&Key],
    ) -> Result<u64, StoreError> {
        let entries = keys.iter().map(|key| {
            let mut entry = ListEntry::default();
            QueueStatements::insert_key(&mut entry, key);
            entry
        });
        let lists = ListParameters::new(vec![entries.collect()]);
        let parameters = lists.and(&[&self.fence]);
        let results = connection.query(batch, &parameters).await;
        let results = results.map_err(|error| {
            let of_table = of_schema_change(&error, &self.purpose());
            match into_refusal(OperationFailure::of_batch(error, 1, batch)) {
                refusal @ StoreError::Rejected(_) => refusal,
                _ => of_table,
            }
        })?;
        Ok(decode::integer(decode::single_row(&results, 0)?, 0)?.unsigned_abs())
    }

    fn purpose(&self) -> String {
        let table = &self.queue.table;
        format!("the new epoch has begun, but the leases in table {table} cannot be ended")
    }
}

impl EndedLeases {
    /// Describes the leases of the table that could not be ended. `None`: there are none.
    pub(super) fn problem(&self, table: &str) -> Option<String> {
        let (key, problem) = self.refused.first()?;
        let others = match self.refused.len() - 1 {
            0 => String::new(),
            count => format!(" (and {count} more of this table)"),
        };
        Some(format!(
            "the lease of item {key} in table {table}{others} cannot be ended: {}",
            problem.text
        ))
    }
}
