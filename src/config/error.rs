//! Errors of the configuration, before and after their location in the sources is known.

use std::fmt;

/// A setting whose value cannot be used.
///
/// The checks create it. They see the merged settings, so they know the key but not the source that set it. The loader
/// adds the location and returns a [`ConfigError`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidSetting {
    /// The key, its parts joined by dots, such as `queues.rainfall.lease_duration`.
    pub(super) key: String,
    /// Why the value cannot be used, and which values can.
    pub(super) reason: String,
    /// The key of another setting that the value must fit. `None`: the value is wrong by itself.
    pub(super) conflict: Option<String>,
}

impl InvalidSetting {
    pub(super) fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            reason: reason.into(),
            conflict: None,
        }
    }

    /// Names the setting that the value must fit, so that the message has its location too.
    pub(super) fn in_conflict_with(self, key: impl Into<String>) -> Self {
        Self {
            conflict: Some(key.into()),
            ..self
        }
    }

    pub(super) fn out_of_range(
        key: impl Into<String>,
        value: impl fmt::Display,
        min: impl fmt::Display,
        max: impl fmt::Display,
    ) -> Self {
        Self::new(key, format!("{value} is not between {min} and {max}"))
    }
}

/// A configuration that cannot be used: which setting, why, and where it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The key, its parts joined by dots. Empty if a whole file cannot be read or parsed.
    pub key: String,
    /// Why the value or the file cannot be used.
    pub reason: String,
    /// The source that set the key: file and line, environment variable or flag.
    pub location: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(out, "{}: {}", self.location, self.reason)
        } else {
            write!(out, "{}: {}: {}", self.location, self.key, self.reason)
        }
    }
}

impl std::error::Error for ConfigError {}
