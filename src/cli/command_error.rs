//! How a command fails: what it says, and its exit code (those of `sysexits.h`).

use std::fmt;
use std::process::ExitCode;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::config::ConfigError;
use crate::store::StoreError;

/// The exit code of a wrong command line or configuration.
pub const EXIT_USAGE: u8 = 64;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub struct CommandError {
    code: u8,
    text: String,
}

impl CommandError {
    /// Something was refused, lost or not as it should be.
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Self::new(1, text)
    }

    /// The command line or the configuration is wrong.
    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self::new(EXIT_USAGE, text)
    }

    /// The service does not answer.
    pub(super) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(69, text)
    }

    /// A file or a device fails.
    pub(super) fn io(text: impl Into<String>) -> Self {
        Self::new(74, text)
    }

    fn new(code: u8, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    /// Puts where it happened before what happened.
    pub(super) fn with_context(mut self, context: impl fmt::Display) -> Self {
        self.text = format!("{context}: {}", self.text);
        self
    }

    /// Returns the process's exit code.
    pub fn exit_code(&self) -> ExitCode {
        self.code.into()
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
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
            StoreError::Rejected(_) => Self::failed(text),
            StoreError::Bug(_) => Self::new(70, text),
        }
    }
}

impl From<Status> for CommandError {
    fn from(status: Status) -> Self {
        let reason = status
            .get_details_error_info()
            .map(|info| format!(" ({})", info.reason))
            .unwrap_or_default();
        let text = format!("{}{reason}", status.message());
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded => Self::unavailable(text),
            // The client's own timer.
            Code::Cancelled => Self::unavailable(format!(
                "the service did not answer in time ({text}); --timeout gives it longer"
            )),
            _ => Self::failed(text),
        }
    }
}
