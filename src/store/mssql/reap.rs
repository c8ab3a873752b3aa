//! The reaper's operation: ends expired leases, makes delayed items ready, and reads the next due time.

use super::MssqlOperations;
use super::decode;
use super::error::RetrySafety;
use crate::item_state::State;
use crate::lease_id::LeaseRef;
use crate::store::{Expired, QueueIndex, Reaped, StoreError};

impl MssqlOperations {
    pub(super) async fn reap(&self, queue: QueueIndex, limit: usize) -> Result<Reaped, StoreError> {
        let queue = self.queue(queue)?;
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        // 0: an item never becomes dead.
        let max_attempts = queue.spec.retry.max_attempts.unwrap_or(0);
        let max_attempts = i32::try_from(max_attempts).unwrap_or(i32::MAX);
        let results = self
            .pool
            .query(
                &queue.sql.reap,
                &[&limit, &max_attempts],
                RetrySafety::Idempotent,
            )
            .await?;
        let mut reaped = Reaped::default();
        // The columns are the key, state before, state after, attempts, fence, token and owner.
        let first = queue.key.len();
        for row in decode::result_set(&results, 0)? {
            if decode::state(row, first)? != State::Leased {
                reaped.promoted += 1;
                continue;
            }
            reaped.expired.push(Expired {
                lease: LeaseRef {
                    key: queue.read_key(row, 0)?,
                    attempt: decode::integer_as(row, first + 2)?,
                    fence: decode::integer(row, first + 3)?,
                    token: decode::token(row, first + 4)?,
                },
                owner: decode::optional_text(row, first + 5)?,
                state: decode::state(row, first + 1)?,
            });
        }
        if let Some(row) = decode::result_set(&results, 1)?.first() {
            reaped.next_due = Some(decode::lease_expiry(row, 0, 1)?.time_left);
        }
        Ok(reaped)
    }
}
