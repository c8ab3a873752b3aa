//! Leases as their rows show them. The statements that read them begin with the same columns: key, fencing token, attempt, lease
//! token, owner, time of the claim, expiry and trace context.

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use rusqlite::Row;
use uuid::Uuid;

use super::queue_statements::QueueStatements;
use super::soft_lock_value::{attempts, integer, text};
use crate::EndedLease;

/// The number of the columns that begin such a statement, besides the key.
pub(super) const HELD_COLUMNS: usize = 7;

impl QueueStatements {
    /// Reads the lease from the first columns: key, fencing token, attempt and token.
    pub(super) fn read_lease(&self, row: &Row<'_>) -> rusqlite::Result<LeaseRef> {
        let first = self.key.len();
        let token = row.get_ref(first + 2)?.as_blob().ok();
        let token = token.and_then(|token| Uuid::from_slice(token).ok());
        Ok(LeaseRef {
            key: self.read_key(row)?,
            token: token.unwrap_or_default(),
            fence: integer(row, first)?.unwrap_or(0),
            attempt: attempts(row, first + 1)?,
        })
    }

    /// Reads a lease that an operation at `now` ends. Its item gets this state.
    pub(super) fn read_ended(
        &self,
        row: &Row<'_>,
        now: i64,
        state: State,
    ) -> rusqlite::Result<EndedLease> {
        let first = self.key.len();
        Ok(EndedLease {
            lease: self.read_lease(row)?,
            owner: text(row, first + 3)?,
            // Another program can have removed these.
            claim_time: integer(row, first + 4)?.unwrap_or(now),
            expire_time: integer(row, first + 5)?.unwrap_or(now),
            trace_parent: text(row, first + 6)?,
            end_time: now,
            state,
        })
    }
}
