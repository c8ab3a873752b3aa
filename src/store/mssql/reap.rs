//! The reaper: ends expired leases and makes delayed items ready.

use super::Mssql;
use super::decode;
use super::error::RetrySafety;
use crate::item_state::State;
use crate::lease_id::LeaseRef;
use crate::store::{Expired, QueueIndex, Reaped, StoreError};

impl Mssql {
    pub(super) async fn reap(&self, queue: QueueIndex, limit: usize) -> Result<Reaped, StoreError> {
        let table = self.queue(queue)?;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let most = table.spec.retry.max_attempts.unwrap_or(0);
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let reap = &table.sql.reap;
        let results = self
            .pool
            .query(reap, &[&limit, &most], RetrySafety::Idempotent)
            .await?;
        let mut reaped = Reaped::default();
        let at = table.key.len();
        for row in decode::result_set(&results, 0)? {
            if decode::state(row, at)? != State::Leased {
                reaped.promoted += 1;
                continue;
            }
            reaped.expired.push(Expired {
                lease: LeaseRef {
                    key: table.read_key(row, 0)?,
                    attempt: decode::unsigned(row, at + 2)?,
                    fence: decode::integer(row, at + 3)?,
                    token: decode::token(row, at + 4)?,
                },
                owner: decode::optional_text(row, at + 5)?,
                state: decode::state(row, at + 1)?,
            });
        }
        if let Some(row) = decode::result_set(&results, 1)?.first() {
            reaped.next_due = Some(decode::lease_expiry(row, 0, 1)?.time_left);
        }
        Ok(reaped)
    }
}
