//! What operators ask: numbers, listings, and another chance for the dead.

use std::time::Duration;

use tiberius::Row;

use super::Mssql;
use super::pool::Again;
use super::table::integer;
use super::types;
use crate::lease::State;
use crate::store::{ListedItem, QueueIndex, Stats, StoreError};

impl Mssql {
    pub(super) async fn stats(&self, queue: QueueIndex) -> Result<Stats, StoreError> {
        let table = self.queue(queue)?;
        let results = self
            .connected
            .query(&table.sql.stats, &[], Again::Idempotent)
            .await?;
        let mut stats = Stats::default();
        for row in results.first().into_iter().flatten() {
            if let Some(state) = State::from_code(integer(row, 0)?) {
                stats.count[state as usize] = integer(row, 1)?.unsigned_abs();
            }
        }
        if let Some(row) = results.get(1).and_then(|rows| rows.first()) {
            let now = time(row, 0)?.unwrap_or_default();
            stats.oldest_ready = time(row, 1)?.map(|since| elapsed(since, now));
            stats.oldest_lease = time(row, 2)?.map(|since| elapsed(since, now));
        }
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
        let code = i32::from(state.code());
        let list = &table.sql.list;
        let results = self
            .connected
            .query(list, &[&code, &limit], Again::Idempotent)
            .await?;
        let at = 1 + table.key.len();
        let item = |row: &Row| -> Result<ListedItem, StoreError> {
            let now = time(row, 0)?.unwrap_or_default();
            let (owner, error): (Option<&str>, Option<&str>) =
                (row.try_get(at)?, row.try_get(at + 5)?);
            Ok(ListedItem {
                key: table.read_key(row, 1)?,
                owner: owner.map(str::to_owned),
                age: time(row, at + 1)?.map(|since| elapsed(since, now)),
                due_in: time(row, at + 2)?.map(|due| elapsed(now, due)),
                attempt: u32::try_from(integer(row, at + 3)?).unwrap_or(0),
                fence: integer(row, at + 4)?,
                error: error.map(str::to_owned),
            })
        };
        results.iter().flatten().map(item).collect()
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
        match results.first().and_then(|rows| rows.first()) {
            Some(row) => Ok(usize::try_from(integer(row, 0)?).unwrap_or(0)),
            None => Err(StoreError::Bug("a redrive without an answer".to_owned())),
        }
    }
}

fn time(row: &Row, at: usize) -> Result<Option<i64>, StoreError> {
    types::millis(row.get_column_data(at)?)
}

fn elapsed(from: i64, to: i64) -> Duration {
    Duration::from_millis(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}
