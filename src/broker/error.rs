//! The broker's error: the reason why a call as a whole was refused or failed.
//!
//! A store's error is turned into one of these here, and `grpc` maps each of these to a status.

use std::fmt;
use std::time::Duration;

use lease_broker_model::text::Quoted;
use lease_broker_store::{Applied, Outage, OutageCause, Problem, ProblemKind, Refusal, StoreError};
use uuid::Uuid;

/// The reason why a call was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field of the request has a value that cannot be used. Nothing was changed.
    #[error("{field}: {problem}")]
    InvalidField {
        /// The field's path in the request, such as `completions[0].follow_ups[1].queue`.
        field: String,
        /// The reason, such as "must be at least 1".
        problem: String,
    },
    /// A field of the request exceeds a limit. Nothing was changed.
    #[error("{field}: {problem}")]
    LimitExceeded {
        /// The field's path in the request, such as `items[3].delay`.
        field: String,
        /// The value and the limit, as text for people.
        problem: String,
        /// The value. `None`: it is not known.
        value: Option<String>,
        /// The limit.
        max: String,
    },
    /// The configuration has no queue of this name. Nothing was changed.
    #[error("queue {} is not configured", Quoted(.0))]
    QueueNotFound(String),
    /// This broker is stopping and gives no more leases. Nothing was changed.
    #[error("the broker is draining: send the call again to reach another broker")]
    Draining,
    /// More calls arrive than the broker can serve. Nothing was changed.
    #[error("{cause}; send the call again after the delay in RetryInfo")]
    Overloaded {
        /// The part of the broker that is overloaded.
        cause: OverloadCause,
        /// The delay after which the caller sends the call again.
        retry_after: Duration,
    },
    /// A lease id has a version that this broker does not know. A newer broker gave it. Nothing was changed.
    #[error(
        "a lease id has version {version}, which this broker does not know: send the call again to reach a newer broker"
    )]
    LeaseIdTooNew {
        /// The version of the id.
        version: u8,
    },
    /// Another broker has signed a lease id with a secret that this broker has not read yet. It reads the secrets now. Nothing
    /// was changed.
    #[error(
        "a lease id has secret {number}, which this broker has not read yet: send the call again"
    )]
    SecretNotRead {
        /// The number of the secret.
        number: u8,
    },
    /// The store cannot be reached, or failed during the call. [`Outage::applied`] says whether the call was applied. The text
    /// has the kind of the outage only, because it goes to callers.
    #[error("the store is unavailable: {}", outage.cause)]
    StoreUnavailable {
        /// The cause and the number of tries.
        outage: Outage,
        /// Time to wait before the caller tries again: 500 to 1,499 ms, random.
        retry_after: Duration,
    },
    /// The store refuses the call until its configuration or schema is changed. Nothing was changed.
    #[error("the store refuses the call: {0}")]
    StoreMisconfigured(String),
    /// The call was answered before the store was asked, because its deadline has passed. Nothing was changed.
    #[error("the deadline has passed before the store was asked")]
    Withdrawn,
    /// An item has a key or another unique value of a row that exists. Nothing was changed.
    #[error("{field}: {problem}")]
    AlreadyExists {
        /// The item's path in the request, such as `items[3]`.
        field: String,
        /// The database's message.
        problem: String,
    },
    /// An operator has paused the queue for new items. Nothing was changed.
    #[error("queue {} is paused: {}", Quoted(queue), if reason.is_empty() { "no reason was given" } else { reason })]
    QueuePaused {
        /// The name of the queue.
        queue: String,
        /// The reason that was given.
        reason: String,
    },
    /// The queue runs an operation of this kind already. Its id. Nothing was changed.
    #[error("the queue runs an operation of this kind, {0}: wait for its end, or cancel it")]
    OperationRunning(Uuid),
    /// The rows of the queue's table may not be deleted. The name of the queue.
    #[error(
        "the rows of queue {} may not be deleted: the broker did not create its table, and its settings lack purge = true",
        Quoted(.0)
    )]
    PurgeNotAllowed(String),
    /// The table of the queue has no row with this key.
    #[error("no item has the key {}", Quoted(.0))]
    ItemNotFound(String),
    /// There is no operation with this id.
    #[error("there is no operation {0}")]
    OperationNotFound(Uuid),
    /// No broker process with this id runs.
    #[error("no broker {0} runs: it has ended, or was never seen on this database")]
    BrokerNotFound(Uuid),
    /// One part of the call has failed with this error. Another part may have been applied.
    #[error("{0}")]
    Partly(Box<Self>),
    /// A bug in the broker or the store. The cause is in the broker's log.
    #[error("internal error: the broker's log has the cause")]
    Internal,
}

/// The cause of an [`Error::Overloaded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverloadCause {
    /// This setting of the section `budgets` is used up.
    Budget(&'static str),
    /// The store serves the calls of this kind on the queue more slowly than they arrive.
    Delay,
}

impl fmt::Display for OverloadCause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget(budget) => write!(out, "budgets.{budget} is used up"),
            Self::Delay => {
                out.write_str("the database serves these calls more slowly than they arrive")
            }
        }
    }
}

impl Error {
    /// Creates an [`Error::InvalidField`].
    pub fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidField {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// Creates an [`Error::LimitExceeded`].
    pub(super) fn limit(
        field: impl Into<String>,
        problem: impl Into<String>,
        value: &impl ToString,
        max: &impl ToString,
    ) -> Self {
        Self::LimitExceeded {
            field: field.into(),
            problem: problem.into(),
            value: Some(value.to_string()),
            max: max.to_string(),
        }
    }

    /// Creates the error for an item that the store rejected. `item` is the item's path in the request. The field is the
    /// column if it is known, or the item as a whole.
    pub(super) fn rejected(item: &str, column: Option<&str>, problem: Problem) -> Self {
        let field = match column {
            Some(column) => format!("{item}.columns[{}]", Quoted(column)),
            None => item.to_owned(),
        };
        let Problem { kind, text, .. } = problem;
        match kind {
            ProblemKind::AlreadyExists => Self::AlreadyExists {
                field,
                problem: text,
            },
            _ => Self::invalid(field, text),
        }
    }

    /// Returns whether the call was applied.
    pub const fn applied(&self) -> Applied {
        match self {
            Self::StoreUnavailable { outage, .. } => outage.applied,
            Self::Partly(_) | Self::Internal => Applied::Unknown,
            _ => Applied::No,
        }
    }

    /// Turns the error about a field of one settlement into the refusal of this settlement. The field's path must begin
    /// in the settlement.
    pub fn into_refusal(self) -> Refusal {
        match self {
            Self::InvalidField { field, problem } | Self::LimitExceeded { field, problem, .. } => {
                Refusal::of_field(field, problem)
            }
            other => Refusal {
                field: None,
                problem: Problem::new(ProblemKind::Other, other.to_string()),
            },
        }
    }

    /// Creates an [`Error::StoreUnavailable`] with a random `retry_after`. All callers fail at the same moment, and
    /// without the random part all of them would also return at the same moment.
    fn unavailable(outage: Outage) -> Self {
        let millis = rand::random_range(500..1_500);
        Self::StoreUnavailable {
            outage,
            retry_after: Duration::from_millis(millis),
        }
    }

    /// Prefixes the field's path with the message that contains the field: `max_items` in `next` becomes
    /// `next.max_items`. An error without a field stays as it is.
    #[must_use]
    pub fn in_message(mut self, message: &str) -> Self {
        if let Self::InvalidField { field, .. } | Self::LimitExceeded { field, .. } = &mut self {
            *field = format!("{message}.{field}");
        }
        self
    }
}

/// Turns a store's error into the caller's.
///
/// The call that knows the request turns a [`StoreError::Rejected`] into an [`Error::InvalidField`] before it
/// comes here. A rejection that still comes here is about no field of the request: a constraint of the table refused
/// the operation, so it becomes [`Error::StoreMisconfigured`].
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rejected(rejection) => Self::StoreMisconfigured(rejection.problem.text),
            StoreError::Paused(_) => {
                // The call that adds items turns it into `QueuePaused`. A pause refuses no other call.
                tracing::error!("bug found: a pause has refused a call other than Enqueue");
                Self::Internal
            }
            StoreError::Unavailable(outage) => {
                tracing::warn!(%outage, "call failed: the store is unavailable");
                Self::unavailable(outage)
            }
            StoreError::Io(reason) => {
                tracing::error!(%reason, "call failed: the store is unavailable");
                Self::unavailable(Outage {
                    cause: OutageCause::File,
                    ..Outage::from(reason)
                })
            }
            StoreError::Misconfigured(problem) => {
                tracing::error!(%problem, "call failed: the store refuses it");
                // The problem can name hosts, logins and statements.
                let remedy = "its schema, its login or the configuration must be corrected; the broker's log has the cause";
                Self::StoreMisconfigured(remedy.to_owned())
            }
            StoreError::Bug(cause) => {
                tracing::error!(%cause, "bug found: please report it");
                Self::Internal
            }
        }
    }
}
