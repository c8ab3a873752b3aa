//! The search for the part of a settlement that the server refused: the item's row, or one of the follow-ups.
//!
//! The server's message names a table or a constraint, and rarely the row. So the search runs parts of the settlement and
//! rolls them back. It takes at most 2 + log2(n) batches for n follow-ups.

use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use super::statement_parts::ROLLBACK;
use crate::{Ending, FollowUp, Refusal, Rejection, Settled, Settlement, StoreError};

impl MssqlOperations {
    /// Finds the part of `settlement` that the server refused with `rejection`.
    ///
    /// If a batch of the search fails in another way, or the lease expires during the search, the result names no field.
    pub(super) async fn find_refused_part(
        &self,
        queue: &QueueStatements,
        settlement: &Settlement,
        rejection: Rejection,
    ) -> Refusal {
        let found = match &settlement.ending {
            Ending::Complete { follow_ups } if !follow_ups.is_empty() => {
                self.find_refused_follow_up(queue, settlement, follow_ups, rejection.clone())
                    .await
            }
            _ => None,
        };
        found.unwrap_or_else(|| queue.name_written_column(rejection, settlement))
    }

    /// Finds the first follow-up that the server refuses, by binary search. Each try completes the item with the first n
    /// follow-ups. Returns `None` if the completion is refused without any. `rejection` is the refusal of all of them.
    async fn find_refused_follow_up(
        &self,
        queue: &QueueStatements,
        settlement: &Settlement,
        follow_ups: &[FollowUp],
        mut rejection: Rejection,
    ) -> Option<Refusal> {
        self.try_follow_ups(queue, settlement, &[]).await?.ok()?;
        // The completion with the first `accepted` follow-ups is applied. With the first `rejected` it is refused.
        let (mut accepted, mut rejected) = (0, follow_ups.len());
        while rejected - accepted > 1 {
            let middle = accepted.midpoint(rejected);
            let first = &follow_ups[..middle];
            match self.try_follow_ups(queue, settlement, first).await? {
                Ok(()) => accepted = middle,
                Err(found) => {
                    rejected = middle;
                    rejection = found;
                }
            }
        }
        let follow_up = &follow_ups[accepted];
        let error = StoreError::Rejected(rejection);
        let target = self.queue(follow_up.queue).ok()?;
        match target.name_refused_column(error, &follow_up.item.columns) {
            StoreError::Rejected(Rejection {
                column, problem, ..
            }) => Some(Refusal::of_follow_up(accepted, column.as_deref(), problem)),
            _ => None,
        }
    }

    /// Completes the item with these follow-ups and rolls back. Returns the server's refusal as an `Err`, and `None` if the
    /// lease is not held or the batch fails in another way.
    async fn try_follow_ups(
        &self,
        queue: &QueueStatements,
        settlement: &Settlement,
        follow_ups: &[FollowUp],
    ) -> Option<Result<(), Rejection>> {
        let part = Settlement {
            lease: settlement.lease.clone(),
            ending: Ending::Complete {
                follow_ups: follow_ups.to_vec(),
            },
            columns: settlement.columns.clone(),
            checkpoint: None,
            trace: None,
        };
        let part = [part];
        let batch = self.run_batch(queue, &part, &[0], ROLLBACK);
        match batch.await {
            Err(StoreError::Rejected(rejection)) => Some(Err(rejection)),
            Ok(settled) => matches!(*settled.results, [(0, Settled::Ended(_))]).then_some(Ok(())),
            Err(_) => None,
        }
    }
}
