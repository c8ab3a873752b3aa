//! Maps SQLite's errors to the errors of a store.

use rusqlite::ErrorCode;

use crate::StoreError;

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
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::unavailable(format!(
            "another process holds the file's write lock ({text})"
        )),
        ErrorCode::DiskFull => StoreError::unavailable(format!(
            "no space is left on the device ({text}); free some, no committed data is lost"
        )),
        ErrorCode::SystemIoFailure => {
            StoreError::unavailable(format!("reading or writing the file failed ({text})"))
        }
        ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted => StoreError::unavailable(text),
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => StoreError::Io(format!(
            "the file is damaged or is not an SQLite database ({text}); restore it, or save what is readable with \
             `sqlite3 FILE .recover`"
        )),
        ErrorCode::ReadOnly => StoreError::Io(format!(
            "the file can't be written ({text}); check its permissions and those of its folder"
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

/// Returns SQLite's message if the row that a statement writes breaks a constraint, has a value of a wrong type or is
/// too large. Returns `None` for every other error.
pub(super) fn broken_constraint(error: &rusqlite::Error) -> Option<String> {
    let rusqlite::Error::SqliteFailure(failure, message) = error else {
        return None;
    };
    let is_broken = matches!(
        failure.code,
        ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig
    );
    is_broken.then(|| message.clone().unwrap_or_else(|| error.to_string()))
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        classify(&error)
    }
}
