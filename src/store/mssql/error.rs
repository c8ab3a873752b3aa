//! What the server's errors mean to a broker, in one table. Sources: Microsoft's lists of database engine errors, of
//! transient errors of Azure SQL, and of availability group errors.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use tiberius::error::Error;

use crate::store::{Outage, Rejection, StoreError};

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// Run the operation again on the same connection: nothing of it was applied.
    Retry,
    /// Connect anew and run it again: it may have been applied, or the server may be another one now.
    Reconnect,
    /// Tell the caller to come back: the server has no room, or its database is being opened. Nothing was applied.
    Wait,
    /// Tell the caller which row a constraint refuses.
    Refuse,
    /// Give up until somebody changes schema, login or configuration.
    Misconfigured,
    /// Give up: no correct broker gets this.
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

const TABLE: &[(Remedy, &[u32])] = &[
    // Deadlock victim, lock time-out, snapshot conflict, out of locks; a turn that did not come (claim.sql), a settlement that
    // came at the same moment (settle.sql); no memory to run the statement; a row of a temporal table that a later
    // transaction has changed already; a handle that is gone (prepared.rs).
    (
        Remedy::Retry,
        &[
            1205, 1222, 3960, 1204, 51222, 51224, 701, 802, 8645, 8651, 13535, 8179,
        ],
    ),
    // Azure SQL: database moved, paused, reconfigured, or the session ended for what it used.
    (
        Remedy::Reconnect,
        &[
            4060, 40143, 40197, 40540, 40613, 42108, 42109, 4221, 615, 926, 40549, 40550, 40551,
            40552, 40553,
        ],
    ),
    // Availability groups: the database is not, or not yet, the primary's, or can be read only there. The session was
    // killed; the server shuts down or starts.
    (
        Remedy::Reconnect,
        &[
            976, 978, 979, 982, 983, 988, 3906, 596, 6005, 6006, 17142, 18401, 18451,
        ],
    ),
    // The log or a filegroup is full; the database is being recovered or restored, is offline or in single-user mode; Azure
    // SQL asks for less.
    (
        Remedy::Wait,
        &[
            9002, 1101, 1105, 921, 922, 924, 927, 942, 945, 952, 10928, 10929, 40501, 40544, 49918,
            49919, 49920,
        ],
    ),
    // Unique key, primary key, NOT NULL, CHECK and foreign key, truncation, conversion, arithmetic, identity, computed
    // column; a trigger that ended the transaction. What triggers raise themselves is 50000 and more.
    (
        Remedy::Refuse,
        &[
            2601, 2627, 515, 547, 2628, 8152, 245, 8114, 241, 242, 8115, 220, 232, 296, 517, 544,
            271, 3609, 8169, 9420, 13536,
        ],
    ),
    // Login, firewall, database, permission; object or column gone; READPAST under SNAPSHOT; a table or an index that takes
    // no such hints; SET options of a filtered index; no OPENJSON; no type, or no syntax, in what the configuration says of a
    // column.
    (
        Remedy::Misconfigured,
        &[
            18456, 18452, 18487, 18488, 40532, 40615, 4064, 916, 229, 230, 262, 300, 1088, 2760,
            3701, 4902, 15151, 15247, 208, 207, 213, 308, 315, 650, 651, 8622, 1934, 195, 10794,
            41305, 12317, 102, 105, 156, 2715,
        ],
    ),
];

/// The least number of an error that a program of the user's raises: a trigger.
const RAISED: u32 = 50_000;
/// Babelfish's number for errors that it has no number for.
const UNMAPPED: u32 = 33_557_097;

fn remedy(error: &Error) -> Remedy {
    match error {
        Error::Server(token) => match remedy_of(token.code(), token.message()) {
            Some(remedy) => remedy,
            // 20 and up end the connection.
            None if token.class() >= 20 => Remedy::Reconnect,
            None => Remedy::Bug,
        },
        // A file that the configuration names: a token, a certificate.
        Error::Io {
            kind: ErrorKind::NotFound | ErrorKind::PermissionDenied,
            ..
        }
        | Error::Tls(_) => Remedy::Misconfigured,
        // The one thing that the driver and a server may not agree on.
        Error::Protocol(text) if text.contains("ncryption") => Remedy::Misconfigured,
        Error::Io { .. } | Error::Routing { .. } | Error::Protocol(_) => Remedy::Reconnect,
        _ => Remedy::Bug,
    }
}

fn remedy_of(number: u32, message: &str) -> Option<Remedy> {
    if number == UNMAPPED {
        let says = |part: &&str| message.contains(*part);
        return Some(
            if ["lock timeout", "deadlock", "serialize"].iter().any(says) {
                Remedy::Retry
            } else if ["does not exist", "syntax error"].iter().any(says) {
                // A syntax error is one of a type that the configuration names.
                Remedy::Misconfigured
            } else if [
                "violates",
                "invalid input",
                "too long",
                "out of range",
                "overflow",
            ]
            .iter()
            .any(says)
            {
                Remedy::Refuse
            } else {
                Remedy::Bug
            },
        );
    }
    let listed = TABLE.iter().find(|(_, numbers)| numbers.contains(&number));
    match listed {
        Some((remedy, _)) => Some(*remedy),
        None if number >= RAISED => Some(Remedy::Refuse),
        None => None,
    }
}

/// Why an operation failed, and how often it was tried.
#[derive(Debug)]
pub(super) struct OperationFailure {
    cause: Cause,
    tries: u32,
}

#[derive(Debug)]
pub(super) enum Cause {
    /// A statement failed.
    Statement(Error),
    /// There was no connection to run it on.
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

    /// Returns whether the connection can't be used any more.
    pub(super) fn breaks_connection(&self) -> bool {
        match &self.cause {
            Cause::Statement(error) => remedy(error) == Remedy::Reconnect,
            Cause::Connection(_) => false,
        }
    }

    /// Returns whether the operation may be run again at once.
    pub(super) fn may_run_again(&self, again: RetrySafety) -> bool {
        match &self.cause {
            Cause::Statement(error) => match remedy(error) {
                Remedy::Retry => true,
                Remedy::Reconnect => again == RetrySafety::Idempotent,
                Remedy::Wait | Remedy::Refuse | Remedy::Misconfigured | Remedy::Bug => false,
            },
            // A server that refuses a login for a moment; nothing was asked of it yet. One that does not answer is left to
            // whoever finds out when it does.
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

/// A failure that is not retried any more is the store's.
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

/// The server has not answered for so long.
pub(super) fn timed_out(patience: Duration) -> Error {
    Error::Io {
        kind: ErrorKind::TimedOut,
        message: format!("no answer within {}", humantime::format_duration(patience)),
    }
}

fn text_of(error: &Error) -> String {
    match error {
        Error::Server(token) => format!("{} (error {})", token.message(), token.code()),
        Error::Io { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// Turns a failure into the into_rejection of a row, if a constraint is to blame.
pub(super) fn into_rejection(failure: OperationFailure) -> StoreError {
    match &failure.cause {
        Cause::Statement(error @ Error::Server(token)) if remedy(error) == Remedy::Refuse => {
            refused(token.message())
        }
        _ => failure.into(),
    }
}

fn refused(message: &str) -> StoreError {
    StoreError::Rejected(Rejection {
        item: 0,
        follow_up: None,
        column: column_of(message),
        problem: message.to_owned(),
    })
}

/// Returns the column that a message of the server names.
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
    fn each_number_has_one_remedy() {
        let mut numbers: Vec<u32> = TABLE
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
    fn what_a_trigger_raises_is_a_refusal_and_an_unknown_number_a_bug() {
        assert_eq!(remedy_of(50_000, "no"), Some(Remedy::Refuse));
        assert_eq!(remedy_of(51_234, "no"), Some(Remedy::Refuse));
        assert_eq!(remedy_of(9_999, "unheard of"), None);
    }

    #[test]
    fn the_column_that_a_message_names_is_found() {
        let message = "Cannot insert the value NULL into column 'Station', table 'x.dbo.t'; column does not allow nulls.";
        assert_eq!(column_of(message).as_deref(), Some("Station"));
        assert_eq!(column_of("Violation of PRIMARY KEY constraint"), None);
    }
}
