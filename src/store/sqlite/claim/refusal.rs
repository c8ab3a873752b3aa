//! Rows that the database does not let a claim lease.

use lease_broker_model::key::Key;

use super::ClaimStatements;
use crate::sqlite::error::broken_constraint;
use crate::{MAX_PASSED_OVER, Problem, Rejection, StoreError};

impl ClaimStatements<'_> {
    /// Notes a row that a constraint or a trigger did not let the present call lease.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] for the present call if the row shows the worker's id, which a constraint can have refused, or if a
    /// trigger has rolled the transaction back. In the latter case the operation runs again without the row. The given error if it is of
    /// another kind.
    pub(super) fn note_refusal(
        &mut self,
        key: &Key,
        error: rusqlite::Error,
    ) -> Result<(), StoreError> {
        let Some(problem) = broken_constraint(&error) else {
            return Err(error.into());
        };
        let is_rolled_back = self.connection.is_autocommit();
        if !is_rolled_back && !self.queue.spec.shows_worker() {
            self.pass_over(key, problem);
            return Ok(());
        }
        let mut left_out = self.left_out();
        if is_rolled_back && left_out.len() < MAX_PASSED_OVER {
            self.warn(key, &problem);
            left_out.push((key.clone(), problem.clone()));
            self.context.run_again();
        }
        let rejection = Rejection::of_item(self.call_index, None, problem);
        Err(StoreError::Rejected(rejection))
    }

    pub(super) fn pass_over(&mut self, key: &Key, problem: Problem) {
        self.warn(key, &problem);
        self.refused.push((key.clone(), problem));
    }

    fn warn(&self, key: &Key, problem: &Problem) {
        tracing::warn!(
            queue = self.queue.spec.name,
            %key,
            problem = problem.text,
            "item passed over: a constraint or a trigger refuses the lease"
        );
    }
}
