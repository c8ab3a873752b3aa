//! What operators ask: numbers, listings, and another chance for the dead.

use tiberius::Row;

use super::error::RetrySafety;
use super::{Mssql, decode};
use crate::item_state::State;
use crate::store::{ListedItem, QueueIndex, Stats, StoreError};

/// Who counts the rows of a deep table.
#[derive(Clone, Copy, Debug)]
pub(super) enum CountMethod {
    /// The server, which keeps a number for each index.
    Statistics,
    /// The statement, whatever that takes.
    Scan,
}

impl Mssql {
    pub(super) async fn stats(
        &self,
        queue: QueueIndex,
        counted: CountMethod,
    ) -> Result<Stats, StoreError> {
        let sql = &self.queue(queue)?.sql;
        let stats = match counted {
            CountMethod::Statistics => &sql.stats,
            CountMethod::Scan => &sql.exact_stats,
        };
        let results = self.pool.query(stats, &[], RetrySafety::Idempotent).await?;
        let mut stats = Stats::default();
        for row in decode::result_set(&results, 0)? {
            stats.count[decode::state(row, 0)? as usize] = decode::unsigned(row, 1)?;
        }
        let ages = decode::single_row(&results, 1)?;
        let now = decode::time(ages, 0)?;
        let age = |at| -> Result<_, StoreError> {
            let since = decode::optional_time(ages, at)?;
            Ok(since.map(|since| decode::duration_between(since, now)))
        };
        stats.oldest_ready = age(1)?;
        stats.oldest_lease = age(2)?;
        Ok(stats)
    }

    pub(super) async fn list(
        &self,
        queue: QueueIndex,
        state: State,
        limit: usize,
    ) -> Result<Vec<ListedItem>, StoreError> {
        let table = self.queue(queue)?;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let list = &table.sql.list[state as usize];
        let results = self
            .pool
            .query(list, &[&limit], RetrySafety::Idempotent)
            .await?;
        let at = 1 + table.key.len();
        let item = |row: &Row| -> Result<ListedItem, StoreError> {
            let now = decode::time(row, 0)?;
            Ok(ListedItem {
                key: table.read_key(row, 1)?,
                owner: decode::optional_text(row, at)?,
                age: decode::optional_time(row, at + 1)?
                    .map(|since| decode::duration_between(since, now)),
                due_in: decode::optional_time(row, at + 2)?
                    .map(|due| decode::duration_between(now, due)),
                attempt: decode::unsigned(row, at + 3)?,
                fence: decode::integer(row, at + 4)?,
                error: decode::optional_text(row, at + 5)?,
            })
        };
        decode::result_set(&results, 0)?.iter().map(item).collect()
    }

    pub(super) async fn redrive(
        &self,
        queue: QueueIndex,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let table = self.queue(queue)?;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let redrive = &table.sql.redrive;
        let results = self
            .pool
            .query(redrive, &[&limit], RetrySafety::Idempotent)
            .await?;
        decode::unsigned(decode::single_row(&results, 0)?, 0)
    }
}
