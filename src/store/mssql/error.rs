//! Errors of the server and of the driver, as the store reports them: whether an operation is retried, whether its
//! connection is closed, and which [`StoreError`] the caller gets.

use std::fmt;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::time::Duration;

use tiberius::error::Error;

use super::batch_reply::BatchFailure;
use super::remedy::{FIRST_USER_ERROR, Remedy, UNMAPPED, remedy, remedy_while_connecting};
use super::statement_parts::runs_triggers;
use crate::{
    Applied, Outage, OutageCause, Problem, ProblemKind, Rejection, RetryReason, StoreError,
};

/// The classes of errors that users can correct (Microsoft's documentation of "Database Engine error severities").
const USER_CLASSES: RangeInclusive<u8> = 11..=16;

/// Tells whether an operation may run again after its reply was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RetrySafety {
    /// A second run has the same effect and returns the same results as the first.
    Idempotent,
    /// A second run would apply the operation twice.
    AtMostOnce,
}

/// The failure of an operation: the last error and the number of tries.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct OperationFailure {
    cause: Cause,
    tries: u32,
    /// True: the batch runs triggers of the user.
    runs_triggers: bool,
    /// True: the answer of an earlier try was lost, and the server may have applied it.
    may_have_been_applied: bool,
    /// True: an earlier try has waited for a lock as long as it may.
    waited_for_lock: bool,
    /// True: the batch had committed before its error.
    after_commit: bool,
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
            runs_triggers: false,
            may_have_been_applied: false,
            waited_for_lock: false,
            after_commit: false,
        }
    }

    /// Returns the failure of a batch that the server has answered.
    pub(super) fn of_batch(failure: impl Into<BatchFailure>, tries: u32, batch: &str) -> Self {
        let BatchFailure {
            error,
            after_commit,
        } = failure.into();
        Self {
            runs_triggers: runs_triggers(batch),
            after_commit,
            ..Self::new(error, tries)
        }
    }

    /// Returns whether the batch had committed before its error, so that the error has undone nothing.
    pub(super) fn is_after_commit(&self) -> bool {
        self.after_commit
    }

    /// Returns this failure of a batch whose changes have been undone since.
    pub(super) fn undone(self) -> Self {
        Self {
            after_commit: false,
            ..self
        }
    }

    /// Returns the reaction to the error of a batch. In a batch that runs triggers, an error that no batch of the broker raises is
    /// theirs. They refuse the change. `None`: no batch was sent.
    fn remedy(&self) -> Option<Remedy> {
        match &self.cause {
            Cause::Statement(error) => Some(match (remedy(error), error) {
                (Remedy::Bug, Error::Server(_)) if self.runs_triggers => Remedy::Refuse,
                (remedy, _) => remedy,
            }),
            Cause::Connection(_) => None,
        }
    }

    /// Returns whether this is an error that the broker does not know, of a class that users can correct. A value can have raised it,
    /// for example in a CHECK that divides by a column.
    pub(super) fn is_unlisted(&self) -> bool {
        match &self.cause {
            Cause::Statement(Error::Server(token)) => {
                USER_CLASSES.contains(&token.class()) && self.remedy() == Some(Remedy::Bug)
            }
            _ => false,
        }
    }

    /// Notes that the server may have applied an earlier try.
    pub(super) fn after_lost_answer(&mut self) {
        self.may_have_been_applied = true;
    }

    /// Notes that an earlier try has waited for a lock as long as it may.
    pub(super) fn after_lock_timeout(&mut self) {
        self.waited_for_lock = true;
    }

    /// Returns whether the batch has waited for a lock as long as it may.
    pub(super) fn is_lock_timeout(&self) -> bool {
        match &self.cause {
            Cause::Statement(error) => is_lock_timeout(error),
            Cause::Connection(_) => false,
        }
    }

    /// Returns whether the connection must be closed.
    pub(super) fn breaks_connection(&self) -> bool {
        matches!(&self.cause, Cause::Statement(error) if breaks_connection(error))
    }

    /// Returns whether the other connections may have ended too.
    pub(super) fn is_of_server(&self) -> bool {
        self.remedy() == Some(Remedy::Reconnect)
    }

    /// Returns the reason why the operation is run again.
    pub(super) fn retry_reason(&self) -> RetryReason {
        const DEADLOCK: u32 = 1205;
        match &self.cause {
            Cause::Statement(error) => match error {
                Error::Io {
                    kind: ErrorKind::TimedOut,
                    ..
                } => RetryReason::Timeout,
                _ if error.code() == Some(DEADLOCK) => RetryReason::Deadlock,
                _ if is_lock_timeout(error) => RetryReason::Timeout,
                _ if self.breaks_connection() => RetryReason::Connection,
                _ => RetryReason::Other,
            },
            Cause::Connection(_) => RetryReason::Connection,
        }
    }

    /// Returns whether a statement has computed a number that is too large for its type.
    pub(super) fn is_overflow(&self) -> bool {
        const ARITHMETIC_OVERFLOW: u32 = 8115;
        match &self.cause {
            Cause::Statement(error) => error.code() == Some(ARITHMETIC_OVERFLOW),
            Cause::Connection(_) => false,
        }
    }

    /// Returns the text of the broker's own error with this number, if that is the failure. A batch throws U+FDD0 for each %, which
    /// `THROW` would take for a placeholder.
    pub(super) fn thrown(&self, number: u32) -> Option<String> {
        match &self.cause {
            Cause::Statement(Error::Server(token)) if token.code() == number => {
                Some(token.message().replace('\u{fdd0}', "%"))
            }
            _ => None,
        }
    }

    /// Returns the pause, if this is the error of `refuse_items` in `pause.sql`. Its text is the reason of the pause.
    fn pause(&self) -> Option<StoreError> {
        const PAUSED: u32 = 51_226;
        self.thrown(PAUSED).map(StoreError::Paused)
    }

    /// Returns whether the batch reached the server, or may have.
    pub(super) fn was_sent(&self) -> bool {
        matches!(self.cause, Cause::Statement(_))
    }

    /// Returns whether the operation may be run again immediately.
    pub(super) fn may_run_again(&self, retry_safety: RetrySafety) -> bool {
        match &self.cause {
            Cause::Statement(error) => match remedy(error) {
                Remedy::Retry => true,
                Remedy::Reconnect => retry_safety == RetrySafety::Idempotent,
                Remedy::Wait
                | Remedy::Damaged
                | Remedy::Refuse
                | Remedy::Misconfigured
                | Remedy::Bug => false,
            },
            // The operation was not sent yet. If the server does not answer at all, or refuses every login, the operation fails, and
            // the health check finds out when the server is back.
            Cause::Connection(StoreError::Unavailable(outage)) => is_refused_for_a_moment(outage),
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
        let remedy = failure.remedy();
        let mut error = match (failure.cause, remedy) {
            (Cause::Statement(error), Some(remedy)) => with_remedy(remedy, &error),
            (Cause::Statement(error), None) => error.into(),
            (Cause::Connection(error), _) => error,
        };
        if let Self::Unavailable(outage) = &mut error {
            outage.tries = failure.tries;
            if failure.waited_for_lock && outage.cause == OutageCause::NoAnswer {
                // The last try still waited for the lock when the time of the operation was over.
                outage.cause = OutageCause::Busy;
                outage.reason = format!("{LOCKED}: {}", outage.reason);
                outage.waited_for_lock = true;
            }
        }
        if failure.may_have_been_applied || failure.after_commit {
            error = error.maybe_applied();
        }
        error
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        with_remedy(remedy(&error), &error)
    }
}

/// Converts an error that occurred before the connection was ready. The result is always an outage. Its cause is
/// [`OutageCause::Login`] if somebody has to correct the login or the configuration.
pub(super) fn while_connecting(error: &Error) -> StoreError {
    match with_remedy(remedy_while_connecting(error), error).not_applied() {
        StoreError::Misconfigured(reason) => StoreError::Unavailable(Outage {
            reason,
            cause: OutageCause::Login,
            tries: 1,
            number: error.code(),
            applied: Applied::No,
            waited_for_lock: false,
        }),
        other => other,
    }
}

/// Returns whether a connection was not opened because the server has refused the login, as one that starts does for a moment. An
/// error number means that the server has answered.
pub(super) fn is_refused_for_a_moment(outage: &Outage) -> bool {
    outage.number.is_some() && outage.cause != OutageCause::Login
}

/// Converts the failure of the last login at the start of a store. On Azure SQL, error 4060 can mean a failover, so
/// logins that it refuses are retried. If it remains, the database does not exist, or the login has no user in it, or the database is
/// being recovered or restored. The broker cannot tell which, so the result is no misconfiguration, after which a supervisor starts nothing
/// again.
pub(super) fn at_start(error: StoreError) -> StoreError {
    /// 4060 is that of SQL Server, 911 that of Babelfish.
    const CANNOT_OPEN_DATABASE: [u32; 2] = [4060, 911];

    match error {
        StoreError::Unavailable(outage)
            if outage
                .number
                .is_some_and(|number| CANNOT_OPEN_DATABASE.contains(&number)) =>
        {
            StoreError::Io(outage.reason)
        }
        other => other,
    }
}

/// Converts an error of a schema change, which has this purpose. The broker cannot know each way in which a table can refuse a
/// change, so an unknown error is the table's and not the broker's.
pub(super) fn of_schema_change(error: &Error, purpose: &str) -> StoreError {
    let text = text_of(error);
    match with_remedy(remedy(error), error) {
        StoreError::Unavailable(mut outage) => {
            outage.reason = if is_lock_timeout(error) {
                format!(
                    "{purpose}: another session held a lock on the table for 10 s; when it has ended, run the command again, which goes on \
                     with this step: {text}"
                )
            } else {
                format!("{purpose}: {text}")
            };
            outage.waited_for_lock = false;
            StoreError::Unavailable(outage)
        }
        StoreError::Bug(_) if !matches!(error, Error::Server(_)) => StoreError::Bug(text),
        _ => StoreError::Misconfigured(format!("{purpose}: {text}")),
    }
}

/// Returns whether the connection must be closed after this error of a batch.
pub(super) fn breaks_connection(error: &Error) -> bool {
    matches!(remedy(error), Remedy::Reconnect | Remedy::Damaged)
}

/// Returns whether a statement has failed because a lock was not free in time.
pub(super) fn is_lock_timeout(error: &Error) -> bool {
    const LOCK_TIMEOUT: u32 = 1222;
    match error {
        Error::Server(token) => {
            token.code() == LOCK_TIMEOUT || token.message().contains("lock timeout")
        }
        _ => false,
    }
}

/// Returns whether an operation has failed because a lock was not free in time.
pub(super) fn is_locked(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(outage) if outage.waited_for_lock)
}

/// The beginning of the error text of an operation that did not get a lock.
const LOCKED: &str = "another session holds a lock on rows or on the table; `lease-broker why` with the key of an item names the session that holds its row";

fn with_remedy(remedy: Remedy, error: &Error) -> StoreError {
    let text = if is_lock_timeout(error) {
        format!("{LOCKED}: {}", text_of(error))
    } else {
        text_of(error)
    };
    match remedy {
        Remedy::Retry | Remedy::Reconnect | Remedy::Wait | Remedy::Damaged => {
            StoreError::Unavailable(Outage {
                reason: text,
                cause: cause_of(remedy, error),
                tries: 1,
                number: error.code(),
                // The server rolls a batch back whose error it reports, unless the batch had committed before. If the connection breaks,
                // the answer is lost.
                applied: match remedy {
                    Remedy::Reconnect | Remedy::Damaged => Applied::Unknown,
                    _ => Applied::No,
                },
                waited_for_lock: is_lock_timeout(error),
            })
        }
        Remedy::Refuse | Remedy::Misconfigured => StoreError::Misconfigured(text),
        Remedy::Bug => StoreError::Bug(text),
    }
}

/// Returns the kind of an outage.
fn cause_of(remedy: Remedy, error: &Error) -> OutageCause {
    /// The log, a data file or a filegroup is full.
    const FULL: [u32; 4] = [9002, 1101, 1105, 1121];

    match error {
        Error::Server(token) if FULL.contains(&token.code()) => OutageCause::NoSpace,
        Error::Server(_) if remedy == Remedy::Damaged => OutageCause::File,
        Error::Server(_) if remedy != Remedy::Reconnect => OutageCause::Busy,
        Error::Io {
            kind: ErrorKind::TimedOut,
            ..
        } => OutageCause::NoAnswer,
        _ => OutageCause::NoConnection,
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

/// Returns the error, or `own` instead of a timeout of the driver. The driver's text names methods of its own as the remedy.
pub(super) fn in_own_words(error: Error, own: impl FnOnce() -> Error) -> Error {
    match error {
        Error::Io {
            kind: ErrorKind::TimedOut,
            message,
        } if message.contains("`Config::") => own(),
        other => other,
    }
}

fn text_of(error: &Error) -> String {
    match error {
        Error::Server(token) => format!("{} (error {})", token.message(), token.code()),
        Error::Io { message, .. } | Error::Tls(message) => message.clone(),
        other => other.to_string(),
    }
}

/// Converts a failure into [`StoreError::Rejected`] if a constraint refused a row, else into the error of its class.
pub(super) fn into_rejection(failure: OperationFailure) -> StoreError {
    if failure.remedy() == Some(Remedy::Refuse) {
        into_refusal(failure)
    } else {
        failure.into()
    }
}

/// Converts the failure of a batch that changes the entries of a list. An unlisted error refuses one of them too. The caller has to
/// make sure that the batch succeeds without entries, or the broker would blame its own mistake on them. If the queue is paused for new
/// items, the pause refuses all of them.
pub(super) fn into_refusal(failure: OperationFailure) -> StoreError {
    if let Some(pause) = failure.pause() {
        return pause;
    }
    match &failure.cause {
        Cause::Statement(error @ Error::Server(token))
            if failure.remedy() == Some(Remedy::Refuse) || failure.is_unlisted() =>
        {
            let mut rejection = rejection_of(token.code(), token.message());
            if failure.runs_triggers && remedy(error) == Remedy::Bug {
                rejection.problem.kind = ProblemKind::Trigger;
            }
            StoreError::Rejected(rejection)
        }
        _ => failure.into(),
    }
}

fn rejection_of(number: u32, message: &str) -> Rejection {
    let problem = Problem {
        kind: kind_of(number, message),
        constraint: constraint_of(number, message),
        text: without_value(message),
    };
    Rejection::of_list(column_of(message), problem)
}

/// Returns the kind of problem for an error with [`Remedy::Refuse`]. Messages are translated, but the keywords of SQL in them
/// are not. Babelfish gives the words of `PostgreSQL`, with the number of SQL Server if there is one.
fn kind_of(number: u32, message: &str) -> ProblemKind {
    let says = |words: &str| message.contains(words);
    match number {
        2601 | 2627 => ProblemKind::AlreadyExists,
        547 if says("CHECK") || says("check constraint") => ProblemKind::Check,
        547 => ProblemKind::ForeignKey,
        544 | 271 => ProblemKind::ColumnNotWritable,
        33504 | 37359 => ProblemKind::Other,
        3609 => ProblemKind::Trigger,
        UNMAPPED if says("unique constraint") => ProblemKind::AlreadyExists,
        UNMAPPED if says("check constraint") => ProblemKind::Check,
        UNMAPPED if says("foreign key constraint") => ProblemKind::ForeignKey,
        UNMAPPED => ProblemKind::ValueUnfit,
        FIRST_USER_ERROR.. => ProblemKind::Trigger,
        _ => ProblemKind::ValueUnfit,
    }
}

/// Returns the name of the constraint or of the unique index in a message of the server. Its place among the quoted names does
/// not depend on the language of the message. A message of Babelfish can quote the table first.
fn constraint_of(number: u32, message: &str) -> Option<String> {
    if let Some((_, violated)) = message.split_once(" violates ")
        && let Some((_, name)) = violated.split_once(" constraint \"")
    {
        return name.split('"').next().map(str::to_owned);
    }
    let (quote, index) = match number {
        547 => ('"', 0),
        2627 => ('\'', 0),
        2601 => ('\'', 1),
        _ => return None,
    };
    let mut quoted = message.split(quote).skip(1).step_by(2);
    quoted.nth(index).map(str::to_owned)
}

/// Removes the value of a column from a message of the server. These are the forms of the messages that quote one:
///
/// - "… The duplicate key value is (1)." (2601, 2627)
/// - "… Truncated value: 'abc'." (2628)
/// - "Arithmetic overflow error for data type tinyint, value = 256." (220, 232)
/// - "Conversion failed when converting the varchar value 'abc' to data type int." (245)
/// - "XML Validation: Invalid simple type value: 'abc'. Location: /*:a\[1\]" (6926)
/// - Babelfish: "invalid input syntax for type integer: "abc"", "value "300" is out of range for type smallint"
fn without_value(message: &str) -> String {
    const BEFORE_LAST_VALUE: [&str; 5] = [
        " The duplicate key value is",
        " Truncated value:",
        " type value:",
        ", value =",
        ": \"",
    ];
    const AROUND_VALUE: [(&str, &str); 2] = [
        (" value '", "' to data type"),
        ("value \"", "\" is out of range"),
    ];
    for (before, after) in AROUND_VALUE {
        if let Some((start, rest)) = message.split_once(before)
            && let Some((_, end)) = rest.rsplit_once(after)
        {
            return format!("{start}{before}…{after}{end}");
        }
    }
    let ends = BEFORE_LAST_VALUE.iter();
    let end = ends.filter_map(|before| message.find(before)).min();
    message[..end.unwrap_or(message.len())].to_owned()
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
    fn values_are_removed_from_messages() {
        for (message, expected) in [
            (
                "Cannot insert duplicate key in object 'dbo.t'. The duplicate key value is (s3cret, a: \"b\").",
                "Cannot insert duplicate key in object 'dbo.t'.",
            ),
            (
                "String or binary data would be truncated in table 't', column 'c'. Truncated value: 's3cret'.",
                "String or binary data would be truncated in table 't', column 'c'.",
            ),
            (
                "Arithmetic overflow error for data type tinyint, value = 256.",
                "Arithmetic overflow error for data type tinyint",
            ),
            (
                "Conversion failed when converting the varchar value 'it' to data type x' to data type int.",
                "Conversion failed when converting the varchar value '…' to data type int.",
            ),
            (
                "invalid input syntax for type integer: \"s3cret\"",
                "invalid input syntax for type integer",
            ),
            (
                "value \"99999999999\" is out of range for type integer",
                "value \"…\" is out of range for type integer",
            ),
            (
                "The DELETE statement conflicted with the REFERENCE constraint \"fk\".",
                "The DELETE statement conflicted with the REFERENCE constraint \"fk\".",
            ),
        ] {
            assert_eq!(without_value(message), expected);
        }
    }

    #[test]
    fn constraint_and_its_kind_are_found() {
        use ProblemKind::{AlreadyExists, Check, ForeignKey};
        for (number, message, kind, constraint) in [
            (
                547,
                "The INSERT statement conflicted with the CHECK constraint \"ck\". The conflict occurred in database \"d\".",
                Check,
                "ck",
            ),
            (
                547,
                "Die INSERT-Anweisung steht in Konflikt mit der FOREIGN KEY-Einschränkung \"fk\".",
                ForeignKey,
                "fk",
            ),
            (
                2627,
                "Violation of UNIQUE KEY constraint 'uq'. Cannot insert duplicate key in object 'dbo.t'.",
                AlreadyExists,
                "uq",
            ),
            // Messages of Babelfish.
            (
                547,
                "new row for relation \"t\" violates check constraint \"ck\"",
                Check,
                "ck",
            ),
            (
                547,
                "insert or update on table \"t\" violates foreign key constraint \"fk\"",
                ForeignKey,
                "fk",
            ),
            (
                2627,
                "duplicate key value violates unique constraint \"uq\"",
                AlreadyExists,
                "uq",
            ),
        ] {
            assert_eq!(kind_of(number, message), kind, "{message}");
            let found = constraint_of(number, message);
            assert_eq!(found.as_deref(), Some(constraint), "{message}");
        }
    }

    #[test]
    fn column_in_an_error_message_is_found() {
        let message = "Cannot insert the value NULL into column 'Station', table 'x.dbo.t'; column does not allow nulls.";
        assert_eq!(column_of(message).as_deref(), Some("Station"));
        assert_eq!(column_of("Violation of PRIMARY KEY constraint"), None);
    }
}
