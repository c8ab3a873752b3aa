//! Rows that an operation leaves as they are, because they refuse their change.
//!
//! A refusal undoes the change of its row only. But a trigger can roll back the whole transaction. Then the operation runs again, and
//! leaves the row out. With `RAISE(FAIL)` a trigger can also refuse a row and leave its change as it is, which a savepoint undoes.
//!
//! SQLite checks a DEFERRED foreign key at the commit, and does not name the row that breaks it. If the commit is refused, the operation
//! runs again and commits row by row. The transaction of a row whose commit is refused goes on without the row.

use std::cell::{Cell, Ref, RefCell};

use lease_broker_model::key::Key;

use super::error::broken_constraint;
use super::row_error::RowError;
use super::undone_by::UndoneBy;
use super::write_context::WriteContext;
use crate::{Problem, StoreError};

/// The most rows that an operation leaves out, unless it says otherwise. Each costs a run of the operation.
const MAX_ROWS: usize = 100;

/// The rows that an operation leaves out of its present run, with their problems.
pub(super) struct LeftOut {
    rows: RefCell<Vec<(Key, Problem)>>,
    max_rows: usize,
    commits_rows: Cell<bool>,
    has_committed: Cell<bool>,
}

impl Default for LeftOut {
    fn default() -> Self {
        Self::of_at_most(MAX_ROWS)
    }
}

impl LeftOut {
    pub(super) const fn of_at_most(max_rows: usize) -> Self {
        Self {
            rows: RefCell::new(Vec::new()),
            max_rows,
            commits_rows: Cell::new(false),
            has_committed: Cell::new(false),
        }
    }

    /// The operation leaves out no row.
    pub(super) const fn none() -> Self {
        Self::of_at_most(0)
    }

    pub(super) fn rows(&self) -> Ref<'_, Vec<(Key, Problem)>> {
        self.rows.borrow()
    }

    /// Makes the operation commit row by row. Returns false if it does so already, or cannot.
    pub(super) fn commit_rows(&self) -> bool {
        self.max_rows > 0 && !self.commits_rows.replace(true)
    }

    /// Returns whether the operation commits row by row.
    pub(super) fn commits_rows(&self) -> bool {
        self.commits_rows.get()
    }

    /// Returns whether the operation has committed a row. Then an error of the operation does not undo all that it has done.
    pub(super) fn has_committed(&self) -> bool {
        self.has_committed.get()
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
        let mut rows = self.rows.borrow_mut();
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
        if self.commits_rows() {
            return self.change_and_commit(context, change);
        }
        let has_savepoint = matches!(undone_by, UndoneBy::Savepoint);
        if has_savepoint {
            context.execute("SAVEPOINT changed_row")?;
        }
        let changed = match change() {
            Ok(changed) => Ok(changed),
            Err(error) => Err(self.note(context, key, error)?),
        };
        if has_savepoint {
            if changed.is_err() {
                context.execute("ROLLBACK TO changed_row")?;
            }
            context.execute("RELEASE changed_row")?;
        }
        Ok(changed)
    }

    /// Changes a row, commits, and begins the next transaction.
    fn change_and_commit<T>(
        &self,
        context: &WriteContext,
        change: impl FnOnce() -> Result<T, RowError>,
    ) -> Result<Result<T, Problem>, StoreError> {
        context.execute("SAVEPOINT changed_row")?;
        let changed = change().and_then(|changed| {
            commit(context)?;
            self.has_committed.set(true);
            Ok(changed)
        });
        let changed = match changed {
            Ok(changed) => Ok(changed),
            Err(RowError::Refused(problem)) => Err(problem),
            Err(RowError::Store(error)) => return Err(error),
        };
        // The commit has ended the transaction, or a trigger has.
        if context.connection.is_autocommit() {
            context.execute("BEGIN IMMEDIATE")?;
        } else {
            context.execute("ROLLBACK TO changed_row")?;
            context.execute("RELEASE changed_row")?;
        }
        Ok(changed)
    }
}

/// Commits. If the changes break a constraint, the transaction goes on.
fn commit(context: &WriteContext) -> Result<(), RowError> {
    let committed = context.connection.prepare_cached("COMMIT")?.execute([]);
    committed.map(drop).map_err(|error| {
        let problem = broken_constraint(&error);
        problem.map_or_else(|| error.into(), RowError::Refused)
    })
}
