//! Rows that the database does not let a claim lease.

use lease_broker_model::key::Key;

use super::ClaimStatements;
use crate::{Problem, Rejection, StoreError};

impl ClaimStatements<'_> {
    /// Takes the result of a change of a row by [`LeftOut`](crate::sqlite::left_out::LeftOut). Passes the row over if it refuses.
    ///
    /// # Errors
    /// Those of the change. A [`StoreError::Rejected`] names the present call.
    pub(super) fn unless_refused<T>(
        &mut self,
        key: &Key,
        changed: Result<Result<T, Problem>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match changed {
            Ok(Ok(changed)) => Ok(Some(changed)),
            Ok(Err(problem)) => {
                self.pass_over(key, problem);
                Ok(None)
            }
            Err(StoreError::Rejected(Rejection { problem, .. })) => {
                self.warn(key, &problem);
                let rejection = Rejection::of_item(self.call_index, None, problem);
                Err(StoreError::Rejected(rejection))
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn pass_over(&mut self, key: &Key, problem: Problem) {
        if !self.queue.spec.shows_worker() {
            self.warn(key, &problem);
        }
        self.refused.push((key.clone(), problem));
    }

    /// Warns of the rows that were passed over in a queue whose rows show the worker's id. The call has got another row, so they do not
    /// refuse the id. Without this, each claim with an id that a constraint refuses would fill the log.
    pub(super) fn warn_of_other_than_worker(&self) {
        if self.queue.spec.shows_worker() {
            for (key, problem) in &self.refused {
                self.warn(key, problem);
            }
        }
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
