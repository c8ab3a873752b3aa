//! What operators ask: numbers, listings, and another chance for the dead.

use tiberius::Row;

use super::pool::Again;
use super::{Mssql, answer};
use crate::lease::State;
use crate::store::{ListedItem, QueueIndex, Stats, StoreError};

/// Who counts the rows of a deep table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    /// The server, which keeps a number for each index.
    ByServer,
    /// The statement, whatever that takes.
    RowByRow,
}

impl Mssql {
    pub(super) async fn stats(
        &self,
        queue: QueueIndex,
        counted: Counted,
    ) -> Result<Stats, StoreError> {
        let sql = &self.queue(queue)?.sql;
        let stats = match counted {
            Counted::ByServer => &sql.stats,
            Counted::RowByRow => &sql.exact_stats,
        };
        let results = self.connected.query(stats, &[], Again::Idempotent).await?;
        let mut stats = Stats::default();
        for row in answer::rows(&results, 0)? {
            stats.count[answer::state(row, 0)? as usize] = answer::count(row, 1)?;
        }
        let ages = answer::one(&results, 1)?;
        let now = answer::time(ages, 0)?;
        let age = |at| -> Result<_, StoreError> {
            let since = answer::time_or_none(ages, at)?;
            Ok(since.map(|since| answer::between(since, now)))
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
            .connected
            .query(list, &[&limit], Again::Idempotent)
            .await?;
        let at = 1 + table.key.len();
        let item = |row: &Row| -> Result<ListedItem, StoreError> {
            let now = answer::time(row, 0)?;
            Ok(ListedItem {
                key: table.read_key(row, 1)?,
                owner: answer::text(row, at)?,
                age: answer::time_or_none(row, at + 1)?.map(|since| answer::between(since, now)),
                due_in: answer::time_or_none(row, at + 2)?.map(|due| answer::between(now, due)),
                attempt: answer::count(row, at + 3)?,
                fence: answer::integer(row, at + 4)?,
                error: answer::text(row, at + 5)?,
            })
        };
        answer::rows(&results, 0)?.iter().map(item).collect()
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
            .connected
            .query(redrive, &[&limit], Again::Idempotent)
            .await?;
        answer::count(answer::one(&results, 0)?, 0)
    }
}
