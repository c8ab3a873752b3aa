//! The errors by which a handler says how its item ends.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::context::Cancelled;

/// The error of a handler. Every error converts to it by `?`.
///
/// [`Retry`], [`DeadLetter`] and [`Release`] say how the item ends. Any other error fails the item with the text
/// `TypeName: message`, and the item is tried again while it has attempts left.
#[derive(Debug)]
pub struct HandlerError {
    pub(super) kind: ErrorKind,
    pub(super) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorKind {
    Failed { retry_after: Option<Duration> },
    DeadLetter,
    Release { after: Option<Duration> },
    Cancelled,
}

impl HandlerError {
    /// Returns an error with this text, for errors that do not implement [`Error`].
    pub fn new(text: impl fmt::Display) -> Self {
        Self::failed(format!("Error: {text}"))
    }

    /// Returns an error with exactly this text, for programs that pass on the text of another program.
    pub fn failed(text: String) -> Self {
        let kind = ErrorKind::Failed { retry_after: None };
        Self { kind, text }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let given: &(dyn Error + 'static) = &error;
        let kind = if let Some(retry) = given.downcast_ref::<Retry>() {
            ErrorKind::Failed {
                retry_after: retry.after,
            }
        } else if given.is::<DeadLetter>() {
            ErrorKind::DeadLetter
        } else if let Some(release) = given.downcast_ref::<Release>() {
            ErrorKind::Release {
                after: release.after,
            }
        } else if given.is::<Cancelled>() {
            ErrorKind::Cancelled
        } else {
            ErrorKind::Failed { retry_after: None }
        };
        let name = type_name(std::any::type_name::<E>());
        let text = match with_sources(given) {
            message if message.is_empty() => name.to_owned(),
            message => format!("{name}: {message}"),
        };
        Self { kind, text }
    }
}

/// Returns the name of a type without its path and its parameters.
fn type_name(path: &str) -> &str {
    let path = path.split('<').next().unwrap_or(path);
    path.rsplit("::").next().unwrap_or(path)
}

/// Returns the message of an error, followed by those of its sources that it does not contain itself.
pub(super) fn with_sources(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

/// Fails the item. It is tried again if it has attempts left.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Retry {
    text: String,
    after: Option<Duration>,
}

impl Retry {
    /// Returns an error after which the item waits for the queue's backoff.
    pub fn new(text: impl fmt::Display) -> Self {
        let (text, after) = (text.to_string(), None);
        Self { text, after }
    }

    /// Sets the delay before the next attempt in place of the queue's backoff, up to 366 days.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }
}

/// Makes the item dead: it is not tried again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct DeadLetter {
    text: String,
}

impl DeadLetter {
    /// Returns an error with a text that is stored on the row.
    pub fn new(text: impl fmt::Display) -> Self {
        let text = text.to_string();
        Self { text }
    }
}

/// Releases the item. The attempt does not count.
#[derive(Clone, Debug, Default, thiserror::Error)]
#[error("released")]
pub struct Release {
    after: Option<Duration>,
}

impl Release {
    /// Returns an error after which the item is ready immediately.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the delay before the item is ready again, up to 366 days.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("label refused")]
    struct PrintError(#[source] std::num::ParseIntError);

    #[test]
    fn error_text_has_type_message_and_source() {
        let source = "x".parse::<i32>().expect_err("not a number");
        let text = HandlerError::from(PrintError(source)).text;
        assert_eq!(
            text,
            "PrintError: label refused: invalid digit found in string"
        );
        assert_eq!(HandlerError::from(Retry::new("")).text, "Retry");
        assert_eq!(HandlerError::new("raised").text, "Error: raised");
    }

    #[test]
    fn error_type_says_how_the_item_ends() {
        let after = Duration::from_secs(1);
        let kind = |error: HandlerError| error.kind;
        assert_eq!(kind(DeadLetter::new("no").into()), ErrorKind::DeadLetter);
        assert_eq!(
            kind(Retry::new("later").after(after).into()),
            ErrorKind::Failed {
                retry_after: Some(after)
            }
        );
        assert_eq!(
            kind(Release::new().after(after).into()),
            ErrorKind::Release { after: Some(after) }
        );
        assert_eq!(
            kind(std::fmt::Error.into()),
            ErrorKind::Failed { retry_after: None }
        );
    }
}
