//! What `SQLite`'s errors mean to a broker, in one table.

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// Classifies an error of a statement or of opening the file.
pub(super) fn classify(error: &rusqlite::Error) -> StoreError {
    let text = error.to_string();
    let failure = match error {
        rusqlite::Error::SqliteFailure(failure, _) => failure,
        // A table or a column that a statement names is gone.
        rusqlite::Error::SqlInputError { error, .. } => error,
        _ => return StoreError::Bug(text),
    };
    match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::unavailable(format!(
            "another process holds the file's write lock ({text})"
        )),
        ErrorCode::DiskFull => StoreError::unavailable(format!(
            "no room is left on the device ({text}); free some, nothing committed is lost"
        )),
        ErrorCode::SystemIoFailure => {
            StoreError::unavailable(format!("reading or writing the file failed ({text})"))
        }
        ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted => StoreError::unavailable(text),
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => StoreError::Io(format!(
            "the file is damaged or no SQLite database ({text}); restore it, or save what can be read with \
             `sqlite3 FILE .recover`"
        )),
        ErrorCode::ReadOnly => StoreError::Io(format!(
            "the file can't be written ({text}); check its permissions and those of its folder"
        )),
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
            StoreError::Io(format!("the file can't be opened ({text})"))
        }
        // A statement that fitted the schema at start no longer does, or the schema refuses the change.
        ErrorCode::Unknown
        | ErrorCode::SchemaChanged
        | ErrorCode::ConstraintViolation
        | ErrorCode::TypeMismatch => {
            StoreError::Misconfigured(format!("the schema refuses: {text}"))
        }
        _ => StoreError::Bug(text),
    }
}

/// Returns the message of the constraint that the statement's row breaks, if that is what went wrong.
pub(super) fn broken_constraint(error: &rusqlite::Error) -> Option<String> {
    let rusqlite::Error::SqliteFailure(failure, message) = error else {
        return None;
    };
    let by_value = matches!(
        failure.code,
        ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig
    );
    by_value.then(|| message.clone().unwrap_or_else(|| error.to_string()))
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        classify(&error)
    }
}
