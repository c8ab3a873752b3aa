//! Claims whose leases are given, but do not reach their callers: they cannot be read, or a later batch of the same claim fails.
//!
//! A claim commits before it reads its leases. The reading can fail for a single row, whose computed column divides by zero, or for all
//! rows, because a column was dropped. No worker knows the leases then, so they are released.

use lease_broker_model::key::Key;
use lease_broker_model::queue::QueueSpec;
use uuid::Uuid;

use super::error::{OperationFailure, into_refusal, into_rejection};
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use crate::{ClaimCall, Claimed, EndedLease, Problem, Rejection, StoreError};

/// The failure of a claim. It has given no leases, or they are released, unless the error says that it may have been applied.
pub(super) struct ClaimFailure {
    error: StoreError,
    /// The leases that could not be read and were released. `None`: the batch was rolled back.
    unread: Option<Vec<EndedLease>>,
}

impl From<StoreError> for ClaimFailure {
    fn from(error: StoreError) -> Self {
        Self {
            error,
            unread: None,
        }
    }
}

impl From<ClaimFailure> for StoreError {
    fn from(failure: ClaimFailure) -> Self {
        failure.error
    }
}

/// The failure of a claim because of one of its rows.
pub(super) struct RowFailure {
    pub(super) problem: Problem,
    unread: Option<Vec<EndedLease>>,
}

impl ClaimFailure {
    /// Returns whether a row is the reason: it cannot be leased, or it cannot be read. If the rows of the queue show the worker, the
    /// worker can be the reason why one cannot be leased.
    pub(super) fn is_of_row(&self, queue: &QueueSpec) -> bool {
        let is_rejection = matches!(self.error, StoreError::Rejected(_));
        is_rejection && (self.unread.is_some() || !queue.shows_worker())
    }

    /// # Errors
    /// The failure of the claim, if no row is the reason.
    pub(super) fn of_row(self, queue: &QueueSpec) -> Result<RowFailure, StoreError> {
        let is_of_row = self.is_of_row(queue);
        match self.error {
            StoreError::Rejected(Rejection { problem, .. }) if is_of_row => Ok(RowFailure {
                problem,
                unread: self.unread,
            }),
            error => Err(error),
        }
    }
}

impl RowFailure {
    /// Returns whether the row was leased, and could not be read.
    pub(super) fn is_unread(&self) -> bool {
        self.unread.is_some()
    }

    /// Returns the key of the row that could not be read. `None`: there were several, of which one is the reason.
    pub(super) fn unread_key(&self) -> Option<Key> {
        match self.unread.as_deref()? {
            [EndedLease { lease, .. }] => Some(lease.key.clone()),
            _ => None,
        }
    }
}

impl MssqlOperations {
    /// Releases the leases of a claim of which a try has failed after its commit. A call with a request id that was sent together with
    /// others keeps its leases: its caller may have them from another broker by now, and when the call is sent alone, it finds them.
    pub(super) async fn release_unread(
        &self,
        queue: &QueueStatements,
        calls: &[&ClaimCall],
        failure: OperationFailure,
    ) -> ClaimFailure {
        let is_alone = calls.len() == 1;
        let lost = calls.iter().filter(|call| is_alone || !call.has_request_id);
        let tokens: Vec<Uuid> = lost.map(|call| call.token).collect();
        let released = match self.release_tokens(queue, &tokens).await {
            Ok(released) if released.locked.is_empty() => released.ended,
            Ok(_) | Err(_) => return StoreError::from(failure).maybe_applied().into(),
        };
        // If the last try has reached its commit, an error that the broker does not know is that of a row too.
        let (error, unread) = if failure.is_after_commit() {
            (into_refusal(failure.undone()), Some(released))
        } else {
            (into_rejection(failure), None)
        };
        let error = if tokens.len() == calls.len() {
            error
        } else {
            error.maybe_applied()
        };
        ClaimFailure { error, unread }
    }

    /// Releases the leases that earlier batches of a claim have given before one failed, and returns the error of the claim. A call with
    /// a request id finds its leases when it is repeated.
    pub(super) async fn release_given(
        &self,
        queue: &QueueStatements,
        calls: &[ClaimCall],
        claimed: &[Claimed],
        error: StoreError,
    ) -> StoreError {
        let given = calls.iter().zip(claimed);
        let given = given.filter(|(_, claimed)| !claimed.items.is_empty());
        let (kept, lost): (Vec<_>, Vec<_>) = given.partition(|(call, _)| call.has_request_id);
        let tokens: Vec<Uuid> = lost.iter().map(|(call, _)| call.token).collect();
        let are_released = tokens.is_empty() || {
            let released = self.release_tokens(queue, &tokens).await;
            released.is_ok_and(|released| released.locked.is_empty())
        };
        if kept.is_empty() && are_released {
            error
        } else {
            error.maybe_applied()
        }
    }
}
