//! Classification of the server's errors: for each error number, the reaction of the broker. Sources: Microsoft's lists
//! of database engine errors, of transient errors of Azure SQL, and of availability group errors.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use tiberius::error::Error;

use crate::store::{Outage, Rejection, StoreError};

/// The reaction to an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// Run the operation again on the same connection. The server has applied none of it.
    Retry,
    /// Open another connection and run the operation again there. The first run may have been applied, and the new
    /// connection may reach another server.
    Reconnect,
    /// Ask the caller to retry later. The server has no space, or its database is starting. Nothing was applied.
    Wait,
    /// Reject the request. A constraint refuses one of its rows.
    Refuse,
    /// Fail until someone changes the schema, the login or the configuration.
    Misconfigured,
    /// Fail. The broker has sent a statement that it should never send.
    Bug,
}

/// Tells whether an operation may run again after its reply was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RetrySafety {
    /// A second run has the same effect and returns the same results as the first.
    Idempotent,
    /// A second run would apply the operation twice.
    AtMostOnce,
}

/// The error numbers for each reaction.
const REMEDIES: &[(Remedy, &[u32])] = &[
    // Deadlock victim, lock timeout, snapshot conflict, out of locks. 51222: the application lock of the queue was not
    // free (claim.sql). 51224: another settlement came at the same time (settle.sql). No memory to run the statement. A
    // row of a temporal table that a later transaction has already changed. 8179: an unknown handle (prepared.rs).
    (
        Remedy::Retry,
        &[
            1205, 1222, 3960, 1204, 51222, 51224, 701, 802, 8645, 8651, 13535, 8179,
        ],
    ),
    // Azure SQL: the database was moved, paused or reconfigured, or the session was ended because it used too many
    // resources.
    (
        Remedy::Reconnect,
        &[
            4060, 40143, 40197, 40540, 40613, 42108, 42109, 4221, 615, 926, 40549, 40550, 40551,
            40552, 40553,
        ],
    ),
    // Availability groups: this replica is not, or not yet, the primary, or it is read-only. The session was killed.
    // The server is shutting down or starting.
    (
        Remedy::Reconnect,
        &[
            976, 978, 979, 982, 983, 988, 3906, 596, 6005, 6006, 17142, 18401, 18451,
        ],
    ),
    // The log or a filegroup is full. The database is being recovered or restored, is offline, or is in single-user
    // mode. Azure SQL throttles requests.
    (
        Remedy::Wait,
        &[
            9002, 1101, 1105, 921, 922, 924, 927, 942, 945, 952, 10928, 10929, 40501, 40544, 49918,
            49919, 49920,
        ],
    ),
    // Unique key, primary key, NOT NULL, CHECK and foreign key, truncation, conversion, arithmetic, identity, computed
    // column. A trigger that ended the transaction. (Errors that a trigger raises itself have numbers from 50000.)
    (
        Remedy::Refuse,
        &[
            2601, 2627, 515, 547, 2628, 8152, 245, 8114, 241, 242, 8115, 220, 232, 296, 517, 544,
            271, 3609, 8169, 9420, 13536,
        ],
    ),
    // Login, firewall, database, permission. A missing object or column. READPAST under SNAPSHOT. A table or an index
    // that does not support a hint. SET options of a filtered index. No OPENJSON. A column definition in the
    // configuration with an unknown type or a syntax error.
    (
        Remedy::Misconfigured,
        &[
            18456, 18452, 18487, 18488, 40532, 40615, 4064, 916, 229, 230, 262, 300, 1088, 2760,
            3701, 4902, 15151, 15247, 208, 207, 213, 308, 315, 650, 651, 8622, 1934, 195, 10794,
            41305, 12317, 102, 105, 156, 2715,
        ],
    ),
];

/// The lowest number of errors that users' own SQL raises, for example in a trigger.
const FIRST_USER_ERROR: u32 = 50_000;
/// The number that Babelfish gives to each `PostgreSQL` error without a SQL Server number.
const UNMAPPED: u32 = 33_557_097;

fn remedy(error: &Error) -> Remedy {
    match error {
        Error::Server(token) => match remedy_of(token.code(), token.message()) {
            Some(remedy) => remedy,
            // An error of class 20 or higher ends the connection.
            None if token.class() >= 20 => Remedy::Reconnect,
            None => Remedy::Bug,
        },
        // A file that the configuration names, such as a token or a certificate, cannot be read.
        Error::Io {
            kind: ErrorKind::NotFound | ErrorKind::PermissionDenied,
            ..
        }
        | Error::Tls(_) => Remedy::Misconfigured,
        // The driver and the server cannot agree on encryption.
        Error::Protocol(text) if text.contains("ncryption") => Remedy::Misconfigured,
        Error::Io { .. } | Error::Routing { .. } | Error::Protocol(_) => Remedy::Reconnect,
        _ => Remedy::Bug,
    }
}

fn remedy_of(number: u32, message: &str) -> Option<Remedy> {
    if number == UNMAPPED {
        let is_in_message = |part: &&str| message.contains(*part);
        return Some(
            if ["lock timeout", "deadlock", "serialize"]
                .iter()
                .any(is_in_message)
            {
                Remedy::Retry
            } else if ["does not exist", "syntax error"].iter().any(is_in_message) {
                // The broker's own SQL has no syntax errors. A column type in the configuration can have one.
                Remedy::Misconfigured
            } else if [
                "violates",
                "invalid input",
                "too long",
                "out of range",
                "overflow",
            ]
            .iter()
            .any(is_in_message)
            {
                Remedy::Refuse
            } else {
                Remedy::Bug
            },
        );
    }
    let listed = REMEDIES
        .iter()
        .find(|(_, numbers)| numbers.contains(&number));
    match listed {
        Some((remedy, _)) => Some(*remedy),
        None if number >= FIRST_USER_ERROR => Some(Remedy::Refuse),
        None => None,
    }
}

/// The failure of an operation: the last error and the number of tries.
#[derive(Debug)]
pub(super) struct OperationFailure {
    cause: Cause,
    tries: u32,
}

#[derive(Debug)]
pub(super) enum Cause {
    /// The batch failed.
    Statement(Error),
    /// No connection could be opened or taken from the pool.
    Connection(StoreError),
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

impl From<StoreError> for Cause {
    fn from(error: StoreError) -> Self {
        Self::Connection(error)
    }
}

impl OperationFailure {
    pub(super) fn new(cause: impl Into<Cause>, tries: u32) -> Self {
        Self {
            cause: cause.into(),
            tries,
        }
    }

    /// Returns whether the connection must be closed.
    pub(super) fn breaks_connection(&self) -> bool {
        match &self.cause {
            Cause::Statement(error) => remedy(error) == Remedy::Reconnect,
            Cause::Connection(_) => false,
        }
    }

    /// Returns whether the operation may be run again immediately.
    pub(super) fn may_run_again(&self, retry_safety: RetrySafety) -> bool {
        match &self.cause {
            Cause::Statement(error) => match remedy(error) {
                Remedy::Retry => true,
                Remedy::Reconnect => retry_safety == RetrySafety::Idempotent,
                Remedy::Wait | Remedy::Refuse | Remedy::Misconfigured | Remedy::Bug => false,
            },
            // An error number means that the server answered and refused the login, perhaps only for a moment. The
            // operation was not sent yet. If the server does not answer at all, the operation fails, and the health
            // check finds out when the server is back.
            Cause::Connection(StoreError::Unavailable(outage)) => outage.number.is_some(),
            Cause::Connection(_) => false,
        }
    }
}

impl fmt::Display for OperationFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Statement(error) => write!(out, "{}", text_of(error))?,
            Cause::Connection(error) => write!(out, "{error}")?,
        }
        write!(out, ", try {}", self.tries)
    }
}

/// Converts a failure that is not retried into the store's error.
impl From<OperationFailure> for StoreError {
    fn from(failure: OperationFailure) -> Self {
        let mut error = match failure.cause {
            Cause::Statement(error) => error.into(),
            Cause::Connection(error) => error,
        };
        if let Self::Unavailable(outage) = &mut error {
            outage.tries = failure.tries;
        }
        error
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let text = text_of(&error);
        match remedy(&error) {
            Remedy::Retry | Remedy::Reconnect | Remedy::Wait => Self::Unavailable(Outage {
                reason: text,
                tries: 1,
                number: error.code(),
            }),
            Remedy::Refuse | Remedy::Misconfigured => Self::Misconfigured(text),
            Remedy::Bug => Self::Bug(text),
        }
    }
}

/// Returns the error for a server that did not reply within the timeout.
pub(super) fn timed_out(duration: Duration) -> Error {
    Error::Io {
        kind: ErrorKind::TimedOut,
        message: format!(
            "no reply from the server within {}",
            humantime::format_duration(duration)
        ),
    }
}

fn text_of(error: &Error) -> String {
    match error {
        Error::Server(token) => format!("{} (error {})", token.message(), token.code()),
        Error::Io { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// Converts a failure into [`StoreError::Rejected`] if a constraint refused a row, else into the error of its class.
pub(super) fn into_rejection(failure: OperationFailure) -> StoreError {
    match &failure.cause {
        Cause::Statement(error @ Error::Server(token)) if remedy(error) == Remedy::Refuse => {
            rejection_of(token.message())
        }
        _ => failure.into(),
    }
}

fn rejection_of(message: &str) -> StoreError {
    StoreError::Rejected(Rejection {
        item: 0,
        follow_up: None,
        column: column_of(message),
        problem: message.to_owned(),
    })
}

/// Returns the column name in quotes after the first "column" in a message of the server.
fn column_of(message: &str) -> Option<String> {
    let (_, after) = message.split_once("column ")?;
    let mut characters = after.chars();
    let quote = characters
        .next()
        .filter(|quote| matches!(quote, '\'' | '"'))?;
    characters.as_str().split(quote).next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_number_has_one_remedy() {
        let mut numbers: Vec<u32> = REMEDIES
            .iter()
            .flat_map(|(_, numbers)| *numbers)
            .copied()
            .collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }

    #[test]
    fn trigger_errors_are_refused_and_unknown_ones_bugs() {
        assert_eq!(remedy_of(50_000, "no"), Some(Remedy::Refuse));
        assert_eq!(remedy_of(51_234, "no"), Some(Remedy::Refuse));
        assert_eq!(remedy_of(9_999, "unheard of"), None);
    }

    #[test]
    fn column_in_an_error_message_is_found() {
        let message = "Cannot insert the value NULL into column 'Station', table 'x.dbo.t'; column does not allow nulls.";
        assert_eq!(column_of(message).as_deref(), Some("Station"));
        assert_eq!(column_of("Violation of PRIMARY KEY constraint"), None);
    }
}
