//! Errors of calls and of workers.

use tonic::Code;

/// The error of a call that is not sent again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{rpc}: {}", status_text(*code, reason, message))]
#[non_exhaustive]
pub struct CallError {
    /// The name of the method, such as `ClaimBatch`.
    pub rpc: &'static str,
    /// The status of the last attempt.
    pub code: Code,
    /// The broker's reason, such as `QUEUE_NOT_FOUND`. Empty: the error does not come from the broker.
    pub reason: String,
    /// The text of the status.
    pub message: String,
    /// The paths of the request's fields that the broker refused.
    pub fields: Vec<String>,
    /// Whether the call has changed something.
    pub applied: Applied,
    /// Whether the same call can succeed later: only the time for retries is over.
    pub temporary: bool,
}

impl CallError {
    /// Returns whether the broker refused the request because of its content.
    pub(super) fn refuses_request(&self) -> bool {
        !self.temporary && matches!(self.code, Code::InvalidArgument | Code::ResourceExhausted)
    }

    /// Returns whether the broker refused the claim in `next`, and so the whole request.
    pub(super) fn refuses_next(&self) -> bool {
        let is_next = |field: &String| field.starts_with("next");
        self.refuses_request() && self.fields.iter().any(is_next)
    }

    /// Returns whether the broker does not let this program make the call.
    pub(super) fn refuses_caller(&self) -> bool {
        !self.temporary && matches!(self.code, Code::Unauthenticated | Code::PermissionDenied)
    }
}

/// The effect of a call that has ended with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Applied {
    /// The broker says for each attempt that it has changed nothing and will change nothing.
    No,
    /// [`Client::enqueue`](super::Client::enqueue) has added the items of
    /// [`EnqueueError::keys`](super::EnqueueError::keys), and will not add the others.
    Partly,
    /// The changes may have been made or may still be made.
    Unknown,
}

impl Applied {
    /// Returns the effect of two attempts.
    pub(super) fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Unknown }
    }

    /// Reads the metadata `applied` of an error of the broker.
    pub(super) fn of_metadata(value: Option<&String>) -> Self {
        match value.map(String::as_str) {
            Some("no") => Self::No,
            _ => Self::Unknown,
        }
    }
}

/// The reason why a worker did not start, or ended without being asked to.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// An option is out of its range, or the credentials are malformed.
    #[error("{0}")]
    Options(String),
    /// The broker refuses the worker, for example because the queue does not exist.
    #[error("{0}")]
    Refused(#[from] CallError),
    /// Handlers were still running 5 s after they were cancelled.
    #[error("handlers are still running")]
    HandlersLeft,
    /// A thread or a runtime cannot be started, a thread of the worker has panicked, or the runtime of the handlers has ended.
    #[error("{0}")]
    Internal(String),
}

/// Returns the text of a status with the broker's reason, if there is one.
pub(super) fn status_text(code: Code, reason: &str, message: &str) -> String {
    if reason.is_empty() {
        format!("{code:?}: {message}")
    } else {
        format!("{code:?} ({reason}): {message}")
    }
}
