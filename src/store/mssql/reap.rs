//! The reaper's operation: ends expired leases, makes delayed items ready, and reads the next due time.

use lease_broker_model::item_state::State;
use tiberius::{ColumnData, ToSql};

use super::decode;
use super::error::RetrySafety;
use super::operations::MssqlOperations;
use crate::{LatestTime, QueueIndex, Reaped, StoreError};

/// The last millisecond of the year 9999, which is the last time of the server.
const MAX_TIME: i64 = 253_402_300_799_999;

/// A parameter with the latest time of the clock at the moment when the batch is sent. The wait for a connection is no step.
struct LatestNow(Option<LatestTime>);

impl ToSql for LatestNow {
    fn to_sql(&self) -> ColumnData<'_> {
        let latest = self.0.map(LatestTime::now);
        ColumnData::I64(latest.filter(|latest| (0..=MAX_TIME).contains(latest)))
    }
}

impl MssqlOperations {
    pub(super) async fn reap(
        &self,
        queue: QueueIndex,
        limit: usize,
        latest: Option<LatestTime>,
        until: Option<i64>,
    ) -> Result<Reaped, StoreError> {
        let queue = self.queue(queue)?;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        // 0: an item never becomes dead.
        let max_attempts = queue.spec.retry.max_attempts.unwrap_or(0);
        let max_attempts = i32::try_from(max_attempts).unwrap_or(i32::MAX);
        let latest = LatestNow(latest);
        let parameters: [&dyn ToSql; 4] = [&limit, &max_attempts, &latest, &until];
        let results = self
            .pool
            .query(&queue.sql.reap, &parameters, RetrySafety::Idempotent)
            .await?;
        let mut reaped = Reaped::default();
        // The lease, the state before and the state after.
        let states = queue.held_columns();
        for row in decode::result_set(&results, 0)? {
            if decode::state(row, states)? != State::Leased {
                reaped.promoted += 1;
                continue;
            }
            let state = decode::state(row, states + 1)?;
            let expired = queue.read_ended(row, 0, state)?;
            reaped.time = Some(expired.end_time);
            reaped.expired.push(expired);
        }
        if let Some(row) = decode::result_set(&results, 1)?.first() {
            reaped.time = Some(decode::time(row, 0)?);
            reaped.next_due = Some(decode::lease_expiry(row, 0, 1)?.time_left);
        }
        for row in results.iter().skip(2).flatten() {
            let released = queue.read_later(row)?;
            reaped.time = released.as_ref().map(|one| one.end_time).or(reaped.time);
            reaped.released.extend(released);
        }
        Ok(reaped)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn latest_time_grows_until_it_is_sent() {
        let start = Instant::now();
        let parameter = LatestNow(Some(LatestTime::new(7, start)));
        while start.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert!(matches!(parameter.to_sql(), ColumnData::I64(Some(9..))));
        let unknown = LatestNow(Some(LatestTime::new(i64::MAX, start)));
        assert_eq!(unknown.to_sql(), ColumnData::I64(None));
    }
}
