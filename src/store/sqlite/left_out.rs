//! Rows that an operation leaves as they are, because they refuse their change.
//!
//! A refusal undoes the change of its row only. But a trigger can roll back the whole transaction. Then the operation runs again, and
//! leaves the row out. With `RAISE(FAIL)` a trigger can also refuse a row and leave its change as it is, which a savepoint undoes.

use lease_broker_model::key::Key;
use parking_lot::{Mutex, MutexGuard};

use super::lease_effects::UndoneBy;
use super::row_error::RowError;
use super::writer::{WriteContext, execute};
use crate::{Problem, StoreError};

/// The most rows that an operation leaves out, unless it says otherwise. Each costs a run of the operation.
const MAX_ROWS: usize = 100;

/// The rows that an operation leaves out of its present run, with their problems.
pub(super) struct LeftOut {
    rows: Mutex<Vec<(Key, Problem)>>,
    max_rows: usize,
}

impl Default for LeftOut {
    fn default() -> Self {
        Self::of_at_most(MAX_ROWS)
    }
}

impl LeftOut {
    pub(super) const fn of_at_most(max_rows: usize) -> Self {
        Self {
            rows: Mutex::new(Vec::new()),
            max_rows,
        }
    }

    pub(super) fn rows(&self) -> MutexGuard<'_, Vec<(Key, Problem)>> {
        self.rows.lock()
    }

    /// Returns the problem of a row that is left out.
    fn problem_of(&self, key: &Key) -> Option<Problem> {
        let rows = self.rows();
        let found = rows.iter().find(|(other, _)| other == key);
        found.map(|(_, problem)| problem.clone())
    }

    /// Returns the problem of a row that refuses its change. If the transaction is rolled back, the row is left out from now on.
    fn note(
        &self,
        context: &WriteContext,
        key: &Key,
        error: RowError,
    ) -> Result<Problem, StoreError> {
        let problem = match error {
            RowError::Refused(problem) => problem,
            RowError::Store(error) => return Err(error),
        };
        if !context.connection.is_autocommit() {
            return Ok(problem);
        }
        let mut rows = self.rows();
        if rows.len() < self.max_rows {
            rows.push((key.clone(), problem.clone()));
            context.run_again();
        }
        Err(RowError::Refused(problem).into())
    }

    /// Changes a row, unless the row is left out. Returns the problem if the row refuses. Then the row is as before.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if a trigger has rolled the transaction back. The operation then runs again. The error of the store if the
    /// row is not the cause.
    pub(super) fn change<T>(
        &self,
        context: &WriteContext,
        key: &Key,
        undone_by: UndoneBy,
        change: impl FnOnce() -> Result<T, RowError>,
    ) -> Result<Result<T, Problem>, StoreError> {
        if let Some(problem) = self.problem_of(key) {
            return Ok(Err(problem));
        }
        let has_savepoint = matches!(undone_by, UndoneBy::Savepoint);
        if has_savepoint {
            execute(context, "SAVEPOINT changed_row")?;
        }
        let changed = match change() {
            Ok(changed) => Ok(changed),
            Err(error) => Err(self.note(context, key, error)?),
        };
        if has_savepoint {
            if changed.is_err() {
                execute(context, "ROLLBACK TO changed_row")?;
            }
            execute(context, "RELEASE changed_row")?;
        }
        Ok(changed)
    }
}
