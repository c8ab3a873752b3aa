//! What the server's errors mean to a broker, in one table. Sources: Microsoft's lists of database engine errors, of
//! transient errors of Azure SQL, and of availability group errors.

use tiberius::error::Error;

use crate::store::{Rejection, StoreError};

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Run the operation again on the same connection: nothing of it was applied.
    Retry,
    /// Connect anew and run it again: it may have been applied, or the server may be another one now.
    Reconnect,
    /// Tell the caller which row a constraint refuses.
    Refuse,
    /// Give up until somebody changes schema, login or configuration.
    Misconfigured,
    /// Give up: no correct broker gets this.
    Bug,
}

const TABLE: &[(Remedy, &[u32])] = &[
    // Deadlock victim, lock time-out, snapshot conflict, out of locks.
    (Remedy::Retry, &[1205, 1222, 3960, 1204]),
    // Azure SQL: database moved, paused, over its resources, or reconfigured.
    (
        Remedy::Reconnect,
        &[
            4060, 10928, 10929, 40143, 40197, 40501, 40540, 40613, 42108, 42109, 49918, 49919,
            49920,
        ],
    ),
    // Availability groups: the database is not, or not yet, the primary's. Shutdown in progress.
    (Remedy::Reconnect, &[976, 983, 6005, 17142]),
    // Unique key, primary key, NOT NULL, CHECK and foreign key, truncation, conversion, arithmetic.
    (
        Remedy::Refuse,
        &[
            2601, 2627, 515, 547, 2628, 8152, 245, 8114, 241, 242, 8115, 220, 232, 296, 544, 271,
        ],
    ),
    // Login, database, permission; object or column gone; READPAST under SNAPSHOT; SET options of a filtered index; no type,
    // or no syntax, in what the configuration says of a column.
    (
        Remedy::Misconfigured,
        &[
            18456, 18452, 4064, 229, 230, 262, 208, 207, 213, 308, 650, 1934, 3616, 102, 105, 156,
            2715,
        ],
    ),
];

/// Babelfish's number for errors that it has no number for.
const UNMAPPED: u32 = 33_557_097;

/// Returns what to do about an error.
pub(super) fn remedy(error: &Error) -> Remedy {
    match error {
        Error::Server(token) => match remedy_of(token.code(), token.message()) {
            Some(remedy) => remedy,
            // 20 and up end the connection.
            None if token.class() >= 20 => Remedy::Reconnect,
            None => Remedy::Bug,
        },
        Error::Io { .. } | Error::Routing { .. } | Error::Protocol(_) => Remedy::Reconnect,
        Error::Tls(_) => Remedy::Misconfigured,
        _ => Remedy::Bug,
    }
}

fn remedy_of(number: u32, message: &str) -> Option<Remedy> {
    if number == UNMAPPED {
        return Some(match message {
            gone if gone.contains("does not exist") => Remedy::Misconfigured,
            // Of a type that the configuration names.
            syntax if syntax.contains("syntax error") => Remedy::Misconfigured,
            _ if message.contains("violates") || message.contains("invalid input") => {
                Remedy::Refuse
            }
            _ if message.contains("too long") || message.contains("out of range") => Remedy::Refuse,
            _ => Remedy::Bug,
        });
    }
    let listed = TABLE.iter().find(|(_, numbers)| numbers.contains(&number));
    listed.map(|(remedy, _)| *remedy)
}

/// Turns an error that is not retried any more into the store's.
pub(super) fn give_up(error: &Error) -> StoreError {
    let text = match error {
        Error::Server(token) => format!("{} (error {})", token.message(), token.code()),
        other => other.to_string(),
    };
    match remedy(error) {
        Remedy::Retry | Remedy::Reconnect => StoreError::Unavailable(text),
        Remedy::Refuse | Remedy::Misconfigured => StoreError::Misconfigured(text),
        Remedy::Bug => StoreError::Bug(text),
    }
}

/// Turns an error into the refusal of a row, if a constraint is to blame.
pub(super) fn refusal(error: &Error) -> StoreError {
    match error {
        Error::Server(token) if remedy(error) == Remedy::Refuse => refused(token.message()),
        _ => give_up(error),
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

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        give_up(&error)
    }
}
