//! Leases as their rows show them. The results that have them begin with the same columns: key, fencing token, attempt, lease
//! token, owner, time of the claim, expiry, trace context, and the server's time.

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use tiberius::Row;

use super::decode;
use super::queue_statements::QueueStatements;
use crate::{EndedLease, StoreError};

impl QueueStatements {
    /// Returns the number of columns that [`Self::read_ended`] reads.
    pub(super) fn held_columns(&self) -> usize {
        self.key.len() + 8
    }

    /// Reads the lease from the columns that begin at `first`: key, fencing token, attempt and token.
    pub(super) fn read_lease(&self, row: &Row, first: usize) -> Result<LeaseRef, StoreError> {
        let next = first + self.key.len();
        Ok(LeaseRef {
            key: self.read_key(row, first)?,
            fence: decode::integer(row, next)?,
            attempt: decode::attempts(row, next + 1)?,
            // Another program can have removed it.
            token: decode::optional_token(row, next + 2)?.unwrap_or_default(),
        })
    }

    /// Reads a lease that was ended from the columns that begin at `first`. Its item got this state.
    pub(super) fn read_ended(
        &self,
        row: &Row,
        first: usize,
        state: State,
    ) -> Result<EndedLease, StoreError> {
        let next = first + self.key.len() + 3;
        let end_time = decode::time(row, next + 4)?;
        Ok(EndedLease {
            lease: self.read_lease(row, first)?,
            owner: decode::optional_text(row, next)?,
            // Another program can have removed these.
            claim_time: decode::optional_time(row, next + 1)?.unwrap_or(end_time),
            expire_time: decode::optional_time(row, next + 2)?.unwrap_or(end_time),
            trace_parent: decode::optional_text(row, next + 3)?,
            end_time,
            state,
        })
    }

    /// Reads a lease that was released with an earlier one of its run, from a row of `read_later` (`runs.sql`). `None`: it is another
    /// row.
    pub(super) fn read_later(&self, row: &Row) -> Result<Option<EndedLease>, StoreError> {
        let is_later = decode::integer(row, 0)? < 0;
        is_later
            .then(|| self.read_ended(row, 2, State::Ready))
            .transpose()
    }
}
