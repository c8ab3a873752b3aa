//! The errors by which a handler says how its item ends.

use std::error::Error;
use std::fmt;
use std::iter;
use std::time::Duration;

use super::context::Cancelled;

/// The error of a handler. Every error that implements [`Error`] converts to it by `?`.
///
/// [`Retry`], [`DeadLetter`] and [`Release`] say how the item ends, also as a source of another error. Any other error fails the item
/// with the text `TypeName: message`, and the item is tried again while it has attempts left.
#[derive(Debug, PartialEq, Eq)]
pub struct HandlerError {
    pub(super) kind: ErrorKind,
    pub(super) text: String,
}

/// How an item ends. [`Retry`], [`DeadLetter`] and [`Release`] have it as their source. So it is found in an error that wraps one of
/// them, and also in one that stands for it, as by `#[error(transparent)]`: such an error returns the sources of the wrapped one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ErrorKind {
    #[error("the item has failed")]
    Failed { retry_after: Option<Duration> },
    #[error("the item is dead")]
    DeadLetter,
    #[error("the item is released")]
    Release { after: Option<Duration> },
    #[error("the handler was cancelled")]
    Cancelled,
}

impl HandlerError {
    /// Returns an error with this text.
    pub fn new(text: impl fmt::Display) -> Self {
        Self::failed(format!("Error: {text}"))
    }

    /// Converts an error whose type is not known, such as `Box<dyn Error + Send + Sync>` or that of the crate `anyhow`, for
    /// which `?` needs `map_err(HandlerError::boxed)`. A [`DeadLetter`], [`Retry`] or [`Release`] in it counts.
    pub fn boxed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        Self::of("Error", &*error)
    }

    /// Returns an error with exactly this text, for programs that pass on the text of another program.
    pub fn failed(text: String) -> Self {
        let kind = ErrorKind::Failed { retry_after: None };
        Self { kind, text }
    }

    /// Returns the error with the name of its type.
    fn of(name: &str, error: &(dyn Error + 'static)) -> Self {
        let kind_of = |error: &(dyn Error + 'static)| {
            let cancelled = error.is::<Cancelled>().then_some(ErrorKind::Cancelled);
            cancelled.or_else(|| error.downcast_ref().copied())
        };
        let kind = iter::successors(Some(error), |&error| error.source()).find_map(kind_of);
        let text = match with_sources(error) {
            message if message.is_empty() => name.to_owned(),
            message => format!("{name}: {message}"),
        };
        Self {
            kind: kind.unwrap_or(ErrorKind::Failed { retry_after: None }),
            text,
        }
    }
}

/// The text that is stored on the row.
impl fmt::Display for HandlerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::of(type_name(std::any::type_name::<E>()), &error)
    }
}

/// Returns the name of a type without its path and its parameters.
fn type_name(path: &str) -> &str {
    let path = path.split('<').next().unwrap_or(path);
    path.rsplit("::").next().unwrap_or(path)
}

/// Returns the message of an error, followed by those of its sources that it does not contain itself, except an [`ErrorKind`].
pub(super) fn with_sources(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) && !error.is::<ErrorKind>() {
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
    source: ErrorKind,
}

impl Retry {
    /// Returns an error after which the item waits for the queue's backoff.
    pub fn new(text: impl fmt::Display) -> Self {
        let (text, source) = (text.to_string(), ErrorKind::Failed { retry_after: None });
        Self { text, source }
    }

    /// Sets the delay before the next attempt in place of the queue's backoff, up to 366 days.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        let retry_after = Some(delay);
        self.source = ErrorKind::Failed { retry_after };
        self
    }
}

/// Makes the item dead: it is not tried again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct DeadLetter {
    text: String,
    source: ErrorKind,
}

impl DeadLetter {
    /// Returns an error with a text that is stored on the row.
    pub fn new(text: impl fmt::Display) -> Self {
        let (text, source) = (text.to_string(), ErrorKind::DeadLetter);
        Self { text, source }
    }
}

/// Releases the item. The attempt does not count.
#[derive(Clone, Debug, thiserror::Error)]
#[error("released")]
pub struct Release {
    source: ErrorKind,
}

impl Default for Release {
    fn default() -> Self {
        let source = ErrorKind::Release { after: None };
        Self { source }
    }
}

impl Release {
    /// Returns an error after which the item is ready immediately.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the delay before the item is ready again, up to 366 days.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        let after = Some(delay);
        self.source = ErrorKind::Release { after };
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

    #[derive(Debug, thiserror::Error)]
    enum AppError {
        #[error(transparent)]
        Dead(#[from] DeadLetter),
        #[error("order 7")]
        Later(#[source] Retry),
    }

    #[test]
    fn source_of_an_error_says_how_the_item_ends() {
        let dead = || AppError::from(DeadLetter::new("no customer"));
        let error = HandlerError::from(dead());
        assert_eq!(error.kind, ErrorKind::DeadLetter);
        assert_eq!(error.to_string(), "AppError: no customer");
        let retry_after = Some(Duration::from_secs(1));
        let later = AppError::Later(Retry::new("busy").after(Duration::from_secs(1)));
        let error = HandlerError::from(later);
        assert_eq!(error.kind, ErrorKind::Failed { retry_after });
        assert_eq!(error.text, "AppError: order 7: busy");
        for boxed in [
            HandlerError::boxed(dead()),
            HandlerError::boxed(std::io::Error::other(dead())),
        ] {
            assert_eq!(boxed.kind, ErrorKind::DeadLetter);
            assert_eq!(boxed.text, "Error: no customer");
        }
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
