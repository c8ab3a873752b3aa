//! Claims of rows that the server does not let a claim lease, or whose columns it cannot read.
//!
//! The server undoes the whole batch and does not tell the row that it refuses. If a row cannot be read, the batch has committed, and its
//! leases are released (`unread_claim.rs`). In both cases the broker asks for fewer items until a claim succeeds, or until one item is
//! left. That row is left out from then on.

use lease_broker_model::key::Key;

use super::claim::{ClaimAnswer, parameters_of_one};
use super::decode;
use super::operations::MssqlOperations;
use super::queue_statements::{ClaimForms, QueueStatements};
use super::unread_claim::RowFailure;
use crate::{ClaimCall, Claimed, Problem, ProblemKind, Rejection, StoreError};

/// The most batches for one call. The next operation goes on.
const MAX_BATCHES: usize = 100;

impl MssqlOperations {
    /// Sends the call at `index` alone. It can get fewer items than it wants, and gets none of the rows that are left out.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if rows were refused and none was leased.
    pub(super) async fn claim_alone(
        &self,
        form: &ClaimForms,
        queue: &QueueStatements,
        calls: &[ClaimCall],
        (index, room): (usize, usize),
        claimed: &mut [Claimed],
    ) -> Result<ClaimAnswer, StoreError> {
        let mut smaller = calls.to_vec();
        let mut failure = StoreError::Bug("a claim was not sent".to_owned());
        for _ in 0..MAX_BATCHES {
            let answer = self
                .claim_by(form, queue, &smaller, (&[index], room), claimed)
                .await;
            let wanted = smaller[index].max_items;
            let refused = match answer {
                Err(failure) => failure.of_row(&queue.spec)?,
                Ok(answer) => {
                    let is_smaller = wanted < calls[index].max_items;
                    let got = claimed[index].items.len();
                    claimed[index].has_more |= is_smaller && got == wanted;
                    return Ok(answer);
                }
            };
            failure = rejected(index, refused.problem.clone());
            if wanted > 1 {
                smaller[index].max_items = wanted / 2;
            } else {
                self.leave_out_next(form, queue, &smaller, (index, &refused))
                    .await?;
                smaller[index].max_items = calls[index].max_items;
            }
        }
        Err(failure)
    }

    /// Tries the row again that is left out the longest, for a single call that gets nothing else. It can be mended by now.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if the row still refuses its lease. The error names it.
    pub(super) async fn try_left_out(
        &self,
        queue: &QueueStatements,
        calls: &[ClaimCall],
        room: usize,
        claimed: &mut [Claimed],
    ) -> Result<(), StoreError> {
        let ([call], [before]) = (calls, &*claimed) else {
            return Ok(());
        };
        let gets_nothing_else = before.items.is_empty()
            && before.is_held_back
            && before.limited.is_none()
            && before.too_large.is_empty()
            && !before.is_paused
            && call.groups.is_empty()
            && call.max_items > 0;
        if !gets_nothing_else || !queue.left_out.forget_oldest() {
            return Ok(());
        }
        let form = &queue.sql.claim_of_share;
        let one = [ClaimCall {
            max_items: 1,
            ..call.clone()
        }];
        let tried = self
            .claim_by(form, queue, &one, (&[0], room), claimed)
            .await;
        let Err(failure) = tried else {
            claimed[0].has_more |= !claimed[0].items.is_empty();
            return Ok(());
        };
        let refused = failure.of_row(&queue.spec)?;
        let left_out = self.leave_out_next(form, queue, &one, (0, &refused));
        let key = left_out.await?;
        let problem = refused.problem;
        let text = match key {
            Some(key) => format!("item {key} cannot be leased: {}", problem.text),
            None => problem.text,
        };
        Err(rejected(0, Problem { text, ..problem }))
    }

    /// Leaves the item out that could not be read, or that the call at `index` would lease if it asked for one, because it is refused.
    /// Returns its key.
    async fn leave_out_next(
        &self,
        form: &ClaimForms,
        queue: &QueueStatements,
        calls: &[ClaimCall],
        (index, refused): (usize, &RowFailure),
    ) -> Result<Option<Key>, StoreError> {
        let (queue_name, problem) = (&*queue.spec.name, &*refused.problem.text);
        let (row, reason) = if refused.is_unread() {
            // Each try to read the row leases it, here or at another broker, and raises its token.
            let row = refused.unread_key().map(|key| (key, i64::MAX));
            (row, "the server cannot read its columns")
        } else {
            let row = self.pick_one(form, queue, calls, index).await?;
            (row, "a constraint or a trigger refuses the lease")
        };
        let Some((key, last_fence)) = row else {
            return Ok(None);
        };
        tracing::warn!(queue = queue_name, %key, problem, "item passed over: {reason}");
        queue.left_out.add(key.clone(), last_fence);
        Ok(Some(key))
    }

    /// Returns key and fencing token of the item that a call for one item would lease.
    async fn pick_one(
        &self,
        form: &ClaimForms,
        queue: &QueueStatements,
        calls: &[ClaimCall],
        index: usize,
    ) -> Result<Option<(Key, i64)>, StoreError> {
        let Some(sql) = &form.pick_one else {
            return Ok(None);
        };
        let parameters = parameters_of_one(queue, calls, index);
        let results = self.query_idempotent(sql, &parameters.parameters()).await?;
        let rows = decode::result_set(&results, 0)?;
        let picked = rows.first().map(|row| {
            let fence = decode::integer(row, 0)?;
            Ok::<_, StoreError>((queue.read_key(row, 1)?, fence))
        });
        picked.transpose()
    }
}

/// Returns the error of the call at `index`. No worker id is the cause, because the rows do not show it.
fn rejected(index: usize, problem: Problem) -> StoreError {
    let kind = match problem.kind {
        ProblemKind::InvalidField | ProblemKind::ValueUnfit => ProblemKind::Other,
        kind => kind,
    };
    let problem = Problem { kind, ..problem };
    StoreError::Rejected(Rejection::of_item(index, None, problem))
}
