//! The reaper's operation: ends expired leases, makes delayed items ready, and reads the next due time.

use lease_broker_model::item_state::State;
use tiberius::ToSql;

use super::decode;
use super::error::RetrySafety;
use super::operations::MssqlOperations;
use crate::{LatestTime, QueueIndex, Reaped, StoreError};

const DAY_MILLIS: i64 = 86_400_000;

impl MssqlOperations {
    pub(super) async fn reap(
        &self,
        queue: QueueIndex,
        limit: usize,
        latest: Option<LatestTime>,
    ) -> Result<Reaped, StoreError> {
        let queue = self.queue(queue)?;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        // 0: an item never becomes dead.
        let max_attempts = queue.spec.retry.max_attempts.unwrap_or(0);
        let max_attempts = i32::try_from(max_attempts).unwrap_or(i32::MAX);
        let mut tries = self.pool.tries();
        let results = loop {
            let latest = latest.map(LatestTime::now);
            let part = |part: i64| i32::try_from(part).ok();
            let days = latest.and_then(|latest| part(latest.div_euclid(DAY_MILLIS)));
            let millis = latest.and_then(|latest| part(latest.rem_euclid(DAY_MILLIS)));
            let parameters: [&dyn ToSql; 4] = [&limit, &max_attempts, &days, &millis];
            let failure = match tries.run(&queue.sql.reap, &parameters).await {
                Ok(results) => break results,
                Err(failure) => failure,
            };
            let may_run_again = failure.may_run_again(RetrySafety::Idempotent);
            if !may_run_again || !tries.wait_for_next(&failure).await {
                return Err(failure.into());
            }
        };
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
        Ok(reaped)
    }
}
