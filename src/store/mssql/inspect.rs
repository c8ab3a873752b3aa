//! Operations for operators: statistics, and lists of items.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::millis::duration_between;
use tiberius::Row;

use super::decode;
use super::error::RetrySafety;
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use crate::{ListedItem, QueueIndex, Stats, StoreError};

/// The number of leases among which the oldest is searched, as in `sql/mssql/stats.sql`.
const LEASE_SAMPLE: u64 = 2_000;

/// How the rows of a large table are counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum CountMethod {
    /// Takes the row counts that the server keeps for each index. The cost does not grow with the table.
    Statistics,
    /// Reads and counts every row.
    Scan,
}

impl MssqlOperations {
    pub(super) async fn stats(
        &self,
        queue: QueueIndex,
        method: CountMethod,
        within: Option<Duration>,
    ) -> Result<(Stats, Duration), StoreError> {
        let queue = self.queue(queue)?;
        let statements = &queue.sql;
        let sql = match method {
            CountMethod::Statistics => &statements.stats,
            CountMethod::Scan => &statements.exact_stats,
        };
        let mut tries = self.pool.tries_within(within);
        let results = tries.query(sql, &[], RetrySafety::Idempotent).await?;
        let mut stats = Stats::default();
        for row in decode::result_set(&results, 0)? {
            if let Some(state) = decode::stored_state(row, 0)? {
                stats.count[state as usize] = decode::integer_as(row, 1)?;
            }
        }
        let ages = decode::single_row(&results, 1)?;
        let now = decode::time(ages, 0)?;
        let age = |column| -> Result<_, StoreError> {
            let since = decode::optional_time(ages, column)?;
            Ok(since.map(|since| duration_between(since, now)))
        };
        stats.oldest_ready = age(1)?;
        stats.oldest_lease = age(2)?;
        stats.set_sampled(&queue.spec.order, LEASE_SAMPLE);
        // A step of the server's clock can make it negative.
        let took: i64 = decode::integer(ages, 3)?;
        Ok((stats, Duration::from_millis(took.max(0).unsigned_abs())))
    }

    pub(super) async fn list(
        &self,
        queue: QueueIndex,
        state: State,
        limit: usize,
    ) -> Result<Vec<ListedItem>, StoreError> {
        let queue = self.queue(queue)?;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let sql = &queue.sql.list[state as usize];
        let results = self.query_idempotent(sql, &[&limit]).await?;
        queue.read_list(&results)
    }
}

impl QueueStatements {
    /// Reads the result of a listing. The columns are the server's time, the key, and those of [`QueueStatements::read_listed`].
    fn read_list(&self, results: &[Vec<Row>]) -> Result<Vec<ListedItem>, StoreError> {
        let rows = decode::result_set(results, 0)?.iter();
        rows.map(|row| self.read_listed(row, 1, 1 + self.key.len(), decode::time(row, 0)?))
            .collect()
    }

    /// Reads an item whose key begins at the column `key`. At the column `owner` begin owner, time of the last change, due time,
    /// attempts, fence and error.
    pub(super) fn read_listed(
        &self,
        row: &Row,
        key: usize,
        owner: usize,
        now: i64,
    ) -> Result<ListedItem, StoreError> {
        let since = decode::state_time(row, owner + 1)?;
        let due = decode::optional_time(row, owner + 2)?;
        Ok(ListedItem {
            key: self.read_key(row, key)?,
            owner: decode::optional_text(row, owner)?,
            age: since.map(|since| duration_between(since, now)),
            state_time: since,
            due_in: due.map(|due| duration_between(now, due)),
            due_time: due,
            attempt: decode::attempts(row, owner + 3)?,
            fence: decode::integer(row, owner + 4)?,
            error: decode::optional_text(row, owner + 5)?,
        })
    }
}
