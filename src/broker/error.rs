//! Why a call was refused or failed, as the broker tells it to whatever serves the call.

use std::time::Duration;

use crate::store::{Outage, StoreError};

/// Why a call changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field's value can't be used.
    #[error("{field}: {problem}")]
    InvalidField {
        /// The field's path in the request, such as `completions[0].follow_ups[1].queue`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A field asks for more than a limit allows.
    #[error("{field}: {problem}")]
    LimitExceeded {
        /// The field's path in the request.
        field: String,
        /// The limit, and by what it is exceeded.
        problem: String,
    },
    /// No queue of this name is configured.
    #[error("there is no queue {0:?}")]
    QueueNotFound(String),
    /// This broker is stopping; another one, or this one later, takes the call.
    #[error("the broker is draining: send the call again, another broker takes it")]
    Draining,
    /// The store does not answer.
    #[error("the store is unavailable: {outage}")]
    StoreUnavailable {
        /// What is known of it.
        outage: Outage,
        /// When to try again.
        retry_after: Duration,
    },
    /// The store refuses until its configuration or schema is mended.
    #[error("the store refuses: {0}")]
    StoreMisconfigured(String),
    /// A bug, whose cause has been logged.
    #[error("internal error")]
    Internal,
}

impl Error {
    /// Puts the field that it is about, if it is about one, into a message of the request.
    #[must_use]
    pub fn in_message(mut self, message: &str) -> Self {
        if let Self::InvalidField { field, .. } | Self::LimitExceeded { field, .. } = &mut self {
            *field = format!("{message}.{field}");
        }
        self
    }

    pub(super) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidField {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// Callers that are told so at the same time come back at different ones.
    pub(super) fn unavailable(outage: Outage) -> Self {
        let share: f64 = rand::random_range(0.5..1.5);
        Self::StoreUnavailable {
            outage,
            retry_after: Duration::from_secs(1).mul_f64(share),
        }
    }

    pub(super) fn limit(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::LimitExceeded {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// Decides what a store's error means to a caller. Rejections name a place in the request and are turned into fields by
/// the operation that knows the request; one that is left is a refusal by the table's own rules.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rejected(rejection) => Self::StoreMisconfigured(rejection.problem),
            StoreError::Unavailable(outage) => Self::unavailable(outage),
            StoreError::Io(reason) => Self::unavailable(reason.into()),
            StoreError::Misconfigured(problem) => Self::StoreMisconfigured(problem),
            StoreError::Bug(cause) => {
                tracing::error!(cause, "a bug: please report it");
                Self::Internal
            }
        }
    }
}
