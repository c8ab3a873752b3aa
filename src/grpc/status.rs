//! Turns errors into statuses: the one table of codes and reasons.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::broker::Error;

const DOMAIN: &str = "leasebroker";
/// The most bytes of a text and of a field's path, which may quote what the caller sent: a status travels in headers,
/// several times over, and clients refuse headers of more than 8 KiB.
const TEXT_BYTES: usize = 1_024;
const FIELD_BYTES: usize = 256;

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        use Code::{
            FailedPrecondition, Internal, InvalidArgument, NotFound, ResourceExhausted, Unavailable,
        };
        let text = error.to_string();
        match error {
            Error::InvalidField { field, problem } => {
                on_field(InvalidArgument, "INVALID_FIELD", text, &field, &problem)
            }
            Error::LimitExceeded { field, problem } => {
                on_field(ResourceExhausted, "LIMIT_EXCEEDED", text, &field, &problem)
            }
            Error::QueueNotFound(_) => status(NotFound, "QUEUE_NOT_FOUND", text, None),
            Error::Draining => status(
                Unavailable,
                "DRAINING",
                text,
                Some(Duration::from_millis(100)),
            ),
            Error::StoreUnavailable {
                outage,
                retry_after,
            } => {
                let tries = ("tries".to_owned(), outage.tries.to_string());
                let number = outage.number.map(|number| number.to_string());
                let number = number.map(|number| ("server_error".to_owned(), number));
                let metadata: HashMap<_, _> = std::iter::once(tries).chain(number).collect();
                let details = ErrorDetails::with_error_info("STORE_UNAVAILABLE", DOMAIN, metadata);
                with_retry(Unavailable, text, details, Some(retry_after))
            }
            Error::StoreMisconfigured(_) => {
                status(FailedPrecondition, "STORE_MISCONFIGURED", text, None)
            }
            Error::Internal => status(Internal, "INTERNAL", text, None),
        }
    }
}

/// More calls are under way than the configuration allows.
pub(super) fn overloaded() -> Status {
    let text = "too many calls are under way; send the call again a little later".to_owned();
    status(
        Code::ResourceExhausted,
        "OVERLOADED",
        text,
        Some(Duration::from_millis(500)),
    )
}

/// The caller's deadline is about to pass.
pub(super) fn deadline_exceeded() -> Status {
    let text = "the deadline passed before the store answered; what was asked may have been done"
        .to_owned();
    status(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", text, None)
}

/// The request is no message of the API; `text` says why.
pub(super) fn malformed(text: String) -> Status {
    status(Code::InvalidArgument, "INVALID_FIELD", text, None)
}

/// The request is larger than the configuration allows; `text` says by what.
pub(super) fn message_too_large(text: String) -> Status {
    status(Code::ResourceExhausted, "LIMIT_EXCEEDED", text, None)
}

fn status(code: Code, reason: &str, text: String, retry_after: Option<Duration>) -> Status {
    let details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    with_retry(code, text, details, retry_after)
}

fn with_retry(
    code: Code,
    text: String,
    mut details: ErrorDetails,
    retry_after: Option<Duration>,
) -> Status {
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(code, cut(text, TEXT_BYTES), details)
}

fn on_field(code: Code, reason: &str, text: String, field: &str, problem: &str) -> Status {
    let field = cut(field.to_owned(), FIELD_BYTES);
    let metadata = HashMap::from([("field".to_owned(), field.clone())]);
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, metadata);
    details.add_bad_request_violation(field, cut(problem.to_owned(), TEXT_BYTES));
    Status::with_error_details(code, cut(text, TEXT_BYTES), details)
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text.push('…');
    text
}
