//! Maps SQLite's errors to the errors of a store.

use rusqlite::{ErrorCode, ffi};

use crate::{OutageCause, Problem, ProblemKind, StoreError};

/// Maps an error of a statement, or of opening the file.
pub(super) fn classify(error: &rusqlite::Error) -> StoreError {
    let text = error.to_string();
    let failure = match error {
        rusqlite::Error::SqliteFailure(failure, _) => failure,
        // The text of a statement does not fit the schema: a table or a column that it names was dropped.
        rusqlite::Error::SqlInputError { error, .. } => error,
        _ => return StoreError::Bug(text),
    };
    match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::outage(
            OutageCause::Busy,
            format!("another process holds the file's write lock ({text})"),
        ),
        ErrorCode::DiskFull => no_space(&text),
        // The file beside the database whose name ends with -shm cannot grow.
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
            no_space(&text)
        }
        ErrorCode::SystemIoFailure => StoreError::outage(
            OutageCause::File,
            format!("reading or writing the file failed ({text})"),
        ),
        ErrorCode::OutOfMemory => StoreError::unavailable(text),
        ErrorCode::OperationInterrupted => StoreError::outage(
            OutageCause::NoAnswer,
            format!("the statement took longer than its time limit ({text})"),
        ),
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => StoreError::Io(format!(
            "the file is damaged or is not an SQLite database ({text}); restore it, or save what is readable with \
             `sqlite3 FILE .recover`"
        )),
        ErrorCode::ReadOnly => StoreError::Io(format!(
            "the file can't be written ({text}); check its permissions, those of its folder, and those of the files beside it whose names \
             end with -wal and -shm"
        )),
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
            StoreError::Io(format!("the file can't be opened ({text})"))
        }
        // The schema has changed since the statement was rendered, or a constraint refuses the change.
        ErrorCode::Unknown
        | ErrorCode::SchemaChanged
        | ErrorCode::ConstraintViolation
        | ErrorCode::TypeMismatch => {
            StoreError::Misconfigured(format!("the schema refuses: {text}"))
        }
        _ => StoreError::Bug(text),
    }
}

fn no_space(text: &str) -> StoreError {
    StoreError::outage(
        OutageCause::NoSpace,
        format!("no space is left on the device ({text}); free some, no committed data is lost"),
    )
}

/// Returns the problem if the row that a statement writes breaks a constraint, has a value of a wrong type or is too large.
/// Returns `None` for every other error.
pub(super) fn broken_constraint(error: &rusqlite::Error) -> Option<Problem> {
    let is_broken = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
    );
    is_broken.then(|| problem_of(error))
}

/// Returns the problem for a row whose statement fails with this error.
pub(super) fn problem_of(error: &rusqlite::Error) -> Problem {
    let text = match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        _ => error.to_string(),
    };
    let code = error.sqlite_error().map(|failure| failure.extended_code);
    let kind = code.map_or(ProblemKind::Other, kind_of);
    Problem {
        kind,
        constraint: constraint_of(kind, &text),
        text,
    }
}

/// Returns the kind of problem for an extended result code (<https://www.sqlite.org/rescode.html>).
fn kind_of(extended_code: i32) -> ProblemKind {
    match extended_code {
        ffi::SQLITE_CONSTRAINT_UNIQUE
        | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
        | ffi::SQLITE_CONSTRAINT_ROWID => ProblemKind::AlreadyExists,
        ffi::SQLITE_CONSTRAINT_CHECK => ProblemKind::Check,
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ProblemKind::ForeignKey,
        ffi::SQLITE_CONSTRAINT_TRIGGER => ProblemKind::Trigger,
        ffi::SQLITE_CONSTRAINT_NOTNULL
        | ffi::SQLITE_CONSTRAINT_DATATYPE
        | ffi::SQLITE_MISMATCH
        | ffi::SQLITE_TOOBIG => ProblemKind::ValueUnfit,
        _ => ProblemKind::Other,
    }
}

/// Returns the name in a message of SQLite: of a CHECK constraint, or of a unique index on expressions. SQLite names no other
/// constraint.
fn constraint_of(kind: ProblemKind, message: &str) -> Option<String> {
    let name = match kind {
        ProblemKind::Check => message.strip_prefix("CHECK constraint failed: ")?,
        ProblemKind::AlreadyExists => message
            .strip_prefix("UNIQUE constraint failed: index '")?
            .strip_suffix('\'')?,
        _ => return None,
    };
    Some(name.to_owned())
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        classify(&error)
    }
}

/// Returns the problem of a row that a statement has not changed although it is as it must be.
pub(super) fn unchanged_row() -> Problem {
    let text = "a trigger ignores the change, or has changed the row before";
    Problem::new(ProblemKind::Trigger, text)
}

/// Returns the problem of a row whose lease was ended in the statement that leased it.
pub(super) fn ended_lease() -> Problem {
    let text = "a trigger has ended the lease in the statement that made it";
    Problem::new(ProblemKind::Trigger, text)
}
