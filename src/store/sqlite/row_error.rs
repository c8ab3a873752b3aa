//! The error of a statement that reads or changes one row. Either the row refuses, which concerns no other row, or the store fails.
//!
//! SQLite has one code, `SQLITE_ERROR`, for a statement that does not fit the schema and for one that fails while it runs, such as a trigger
//! that reads malformed JSON. If the statement can still be prepared, it fits the schema, and the row is the cause.

use rusqlite::{Connection, ErrorCode, Statement, ffi};

use super::error::{broken_constraint, classify, problem_of, unchanged_row};
use crate::{Problem, Rejection, StoreError};

/// The error of a statement that reads or changes one row.
pub(super) enum RowError {
    /// A constraint, a trigger or a value of the row.
    Refused(Problem),
    /// Anything else. Other rows would meet it too.
    Store(StoreError),
}

impl RowError {
    /// Sorts the error with which a run of the statement has ended.
    pub(super) fn new(
        connection: &Connection,
        statement: &Statement<'_>,
        error: &rusqlite::Error,
    ) -> Self {
        let failed_while_it_ran = || {
            is_general(error)
                && statement
                    .expanded_sql()
                    .is_some_and(|sql| connection.prepare(&sql).is_ok())
        };
        match broken_constraint(error) {
            Some(problem) => Self::Refused(problem),
            None if failed_while_it_ran() => Self::Refused(problem_of(error)),
            None => Self::Store(classify(error)),
        }
    }
}

impl From<rusqlite::Error> for RowError {
    /// Takes an error from before the statement has run.
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<StoreError> for RowError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rejected(rejection) => Self::Refused(rejection.problem),
            error => Self::Store(error),
        }
    }
}

impl From<RowError> for StoreError {
    fn from(error: RowError) -> Self {
        match error {
            RowError::Refused(problem) => Self::Rejected(Rejection::of_list(None, problem)),
            RowError::Store(error) => error,
        }
    }
}

/// Runs a statement that changes one row. Returns the number of changed rows.
pub(super) fn change_row(
    connection: &Connection,
    statement: &mut Statement<'_>,
) -> Result<usize, RowError> {
    let changed = statement.raw_execute();
    changed.map_err(|error| RowError::new(connection, statement, &error))
}

/// Runs a statement that changes a row which is as the statement needs it. If it changes none, the row refuses: a trigger ignores the change.
pub(super) fn change_fit_row(
    connection: &Connection,
    statement: &mut Statement<'_>,
) -> Result<(), RowError> {
    match change_row(connection, statement)? {
        0 => Err(RowError::Refused(unchanged_row())),
        _ => Ok(()),
    }
}

/// Returns whether SQLite gives no more precise code than `SQLITE_ERROR`.
fn is_general(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _)
        if failure.code == ErrorCode::Unknown && failure.extended_code & 0xff == ffi::SQLITE_ERROR)
}
