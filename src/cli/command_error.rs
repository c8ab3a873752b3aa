//! The error of a command: a message for standard error and an exit code of `sysexits.h`.

use std::fmt;
use std::process::ExitCode;

use lease_broker_model::text;
use lease_broker_store::StoreError;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::connection::ConnectionError;
use crate::config::ConfigError;

/// Exit code of a wrong command line or configuration (`EX_USAGE`).
pub(super) const EXIT_USAGE: u8 = 64;
/// Exit code of a service that cannot be reached (`EX_UNAVAILABLE`).
const EXIT_UNAVAILABLE: u8 = 69;
/// Exit code of a bug in this program (`EX_SOFTWARE`).
const EXIT_SOFTWARE: u8 = 70;

/// The reason why a command failed, with its exit code.
#[derive(Debug)]
pub struct CommandError {
    code: u8,
    text: String,
    /// Whether the service is unavailable by its own answer.
    is_answer: bool,
}

impl CommandError {
    /// Exit code 1: the service refused the call, a lease was lost, or a check failed.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(1, text)
    }

    /// Exit code 64: the command line, a file of items, the configuration or the schema of a table is wrong.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(EXIT_USAGE, text)
    }

    /// Exit code 69: the service cannot be reached or did not answer in time.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::new(EXIT_UNAVAILABLE, text)
    }

    /// Exit code 74: a file, a port or the database cannot be used.
    pub fn io(text: impl Into<String>) -> Self {
        Self::new(74, text)
    }

    /// Exit code 2: no item fits what the command line selects.
    pub(super) fn nothing_matched(text: impl Into<String>) -> Self {
        Self::new(2, text)
    }

    /// Exit code 3: the user did not confirm the change.
    pub(super) fn not_confirmed(text: impl Into<String>) -> Self {
        Self::new(3, text)
    }

    /// Exit code 4: an operation ended before it has changed every item.
    pub(super) fn part_way(text: impl Into<String>) -> Self {
        Self::new(4, text)
    }

    fn new(code: u8, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            is_answer: false,
        }
    }

    /// Prefixes the message with the place where the error occurred, such as a file and line.
    #[must_use]
    pub fn with_context(mut self, context: impl fmt::Display) -> Self {
        self.text = format!("{context}: {}", self.text);
        self
    }

    /// Appends another remedy to the message.
    pub(super) fn with_hint(mut self, hint: &str) -> Self {
        self.text = format!("{}; {hint}", self.text);
        self
    }

    /// Returns whether the service cannot be reached or did not answer in time.
    pub(super) fn is_outage(&self) -> bool {
        self.code == EXIT_UNAVAILABLE
    }

    /// Returns whether a running service has answered that it is unavailable, for example because its database is.
    pub(super) fn is_answer_of_service(&self) -> bool {
        self.is_answer
    }

    /// Returns whether the command line, the configuration or the schema of a table is wrong.
    pub(super) fn is_usage(&self) -> bool {
        self.code == EXIT_USAGE
    }

    /// Returns the exit code for the process.
    pub fn exit_code(&self) -> ExitCode {
        self.code.into()
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&text::visible_lines(&self.text))
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::Misconfigured(_) => Self::usage(text),
            StoreError::Io(_) | StoreError::Unavailable(_) => Self::io(text),
            StoreError::Rejected(_) | StoreError::Paused(_) => Self::failed(text),
            StoreError::Bug(_) => Self::new(EXIT_SOFTWARE, text),
        }
    }
}

impl From<Status> for CommandError {
    fn from(status: Status) -> Self {
        if let Some(error) = ConnectionError::of_status(&status) {
            return Self::unavailable(error.to_string());
        }
        let reason = status.get_details_error_info().map(|info| info.reason);
        let shown = reason.as_ref().map(|reason| format!(" ({reason})"));
        let text = format!("{}{}", status.message(), shown.unwrap_or_default());
        match status.code() {
            // The command line names the queue.
            Code::NotFound if reason.as_deref() == Some("QUEUE_NOT_FOUND") => Self::usage(text),
            Code::Unavailable | Code::DeadlineExceeded => Self {
                // The answer of a load balancer has no reason.
                is_answer: reason.is_some(),
                ..Self::unavailable(text)
            },
            // The timeout of the client itself, set by --timeout.
            Code::Cancelled => Self::unavailable(format!(
                "the service did not answer in time ({text}); set a longer --timeout"
            )),
            _ => Self::failed(text),
        }
    }
}
