//! The table from errors to gRPC status codes and reasons. All errors that the API returns are built here.
//!
//! Each status carries a `google.rpc.ErrorInfo` with the reason. `lease_broker.proto` documents the table for clients.
//!
//! Each status also tells the client's retry policy what to do, in the trailer `grpc-retry-pushback-ms` (gRFC A6): the
//! delay in `google.rpc.RetryInfo`, or -1 if a retry cannot help. No gRPC library reads `RetryInfo`.

use std::collections::HashMap;
use std::time::Duration;

use lease_broker_model::text::{Quoted, is_hidden, visible_lines};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::reason::Reason;
use crate::broker::Error;
use crate::security::OverLimit;

/// The domain of every `google.rpc.ErrorInfo`.
const DOMAIN: &str = "leasebroker";
/// The maximum bytes of a text, and of a field's path. Both can quote what the caller sent. A status travels in HTTP
/// headers and repeats the text, and clients refuse headers of more than 8 KiB.
pub(super) const MAX_TEXT_BYTES: usize = 1_024;
const MAX_FIELD_BYTES: usize = 256;

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        use Code::{FailedPrecondition, Internal, InvalidArgument, NotFound, Unavailable};
        let text = error.to_string();
        match error {
            Error::InvalidField { field, problem } => on_field(
                InvalidArgument,
                Reason::InvalidField,
                text,
                &field,
                &problem,
            ),
            Error::LimitExceeded { field, problem } => on_field(
                InvalidArgument,
                Reason::LimitExceeded,
                text,
                &field,
                &problem,
            ),
            Error::QueueNotFound(_) => status(NotFound, Reason::QueueNotFound, text, None),
            Error::Draining => status(
                Unavailable,
                Reason::Draining,
                text,
                Some(Duration::from_millis(100)),
            ),
            Error::LeaseIdTooNew { .. } | Error::SecretNotRead { .. } => status(
                Unavailable,
                Reason::LeaseIdTooNew,
                text,
                Some(Duration::from_millis(500)),
            ),
            Error::StoreUnavailable {
                outage,
                retry_after,
            } => {
                let tries = ("tries".to_owned(), outage.tries.to_string());
                let number = outage.number.map(|number| number.to_string());
                let number = number.map(|number| ("server_error".to_owned(), number));
                let metadata: HashMap<_, _> = std::iter::once(tries).chain(number).collect();
                let details = error_info(Reason::StoreUnavailable, metadata);
                with_retry(Unavailable, text, details, Some(retry_after))
            }
            Error::StoreMisconfigured(_) => {
                status(FailedPrecondition, Reason::StoreMisconfigured, text, None)
            }
            Error::Overloaded { retry_after, .. } => status(
                Code::ResourceExhausted,
                Reason::Overloaded,
                text,
                Some(retry_after),
            ),
            Error::Internal => status(Internal, Reason::Internal, text, None),
        }
    }
}

/// Returns the status for a call whose deadline is about to pass.
pub(super) fn deadline_exceeded() -> Status {
    let text =
        "the deadline passed before the store answered; the call may have been applied".to_owned();
    status(Code::DeadlineExceeded, Reason::DeadlineExceeded, text, None)
}

/// Returns the status for a request that cannot be decoded as a message of the API. `text` gives the cause.
pub(super) fn malformed(text: String) -> Status {
    status(Code::InvalidArgument, Reason::InvalidField, text, None)
}

/// Returns the status for a request whose last byte has not arrived within `timeout`.
pub(super) fn incomplete(timeout: Duration) -> Status {
    let timeout = humantime::format_duration(timeout);
    let text = format!("the request did not arrive completely within {timeout}");
    status(Code::InvalidArgument, Reason::RequestIncomplete, text, None)
}

/// Returns the status for a request that is compressed with `encoding`.
pub(super) fn compressed(encoding: &str) -> Status {
    let text = format!(
        "the request is compressed with {}, and the service reads no compressed requests; turn the compression of the client \
         off, so that it does not send the header grpc-encoding",
        Quoted(encoding)
    );
    let mut status = status(
        Code::Unimplemented,
        Reason::CompressionUnsupported,
        text,
        None,
    );
    let supported = MetadataValue::from_static("identity");
    status
        .metadata_mut()
        .insert("grpc-accept-encoding", supported);
    status
}

/// Returns the status for a request above the configured message size. `text` gives both sizes.
pub(super) fn message_too_large(text: String) -> Status {
    status(Code::ResourceExhausted, Reason::LimitExceeded, text, None)
}

/// Returns the status for a call without credentials.
pub(super) fn credentials_missing() -> Status {
    let text = "the call has no credentials".to_owned();
    status(
        Code::Unauthenticated,
        Reason::CredentialsMissing,
        text,
        None,
    )
}

/// Returns the status for a call whose credentials are not valid. It is the same for every cause. `retry_after`: they were
/// not checked.
pub(super) fn credentials_invalid(retry_after: Option<Duration>) -> Status {
    let text = "the credentials are not valid".to_owned();
    status(
        Code::Unauthenticated,
        Reason::CredentialsInvalid,
        text,
        retry_after,
    )
}

/// Returns the status for a caller without a role that the rpc needs. It is the same whether a queue exists or not.
pub(super) fn role_missing(rpc: &str, needed: &str) -> Status {
    let text = format!("{rpc} needs the role {needed} on this queue");
    let metadata = HashMap::from([
        ("rpc".to_owned(), rpc.to_owned()),
        ("role".to_owned(), needed.to_owned()),
    ]);
    let details = error_info(Reason::RoleMissing, metadata);
    with_retry(Code::PermissionDenied, text, details, None)
}

/// Returns the status for a call over a limit of its identity.
pub(super) fn identity_limit(over: OverLimit) -> Status {
    let OverLimit { limit, retry_after } = over;
    let text = format!(
        "the limit {limit} of the caller's identity is reached; send the call again after the delay in RetryInfo"
    );
    let metadata = HashMap::from([("limit".to_owned(), limit.to_owned())]);
    let details = error_info(Reason::IdentityLimit, metadata);
    with_retry(Code::ResourceExhausted, text, details, Some(retry_after))
}

fn status(code: Code, reason: Reason, text: String, retry_after: Option<Duration>) -> Status {
    let details = error_info(reason, HashMap::new());
    with_retry(code, text, details, retry_after)
}

fn error_info(reason: Reason, metadata: HashMap<String, String>) -> ErrorDetails {
    ErrorDetails::with_error_info(reason.name(), DOMAIN, metadata)
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
    let text = truncate(text, MAX_TEXT_BYTES);
    Status::with_error_details_and_metadata(code, text, details, pushback(retry_after))
}

/// Returns the trailer that makes a client's retry policy wait for this time, or stop. Whole milliseconds.
fn pushback(retry_after: Option<Duration>) -> MetadataMap {
    let millis = retry_after.and_then(|delay| u32::try_from(delay.as_millis()).ok());
    let mut metadata = MetadataMap::new();
    let value = millis.map_or(MetadataValue::from_static("-1"), MetadataValue::from);
    metadata.insert("grpc-retry-pushback-ms", value);
    metadata
}

fn on_field(code: Code, reason: Reason, text: String, field: &str, problem: &str) -> Status {
    let field = truncate(field.to_owned(), MAX_FIELD_BYTES);
    let metadata = HashMap::from([("field".to_owned(), field.clone())]);
    let mut details = error_info(reason, metadata);
    details.add_bad_request_violation(field, truncate(problem.to_owned(), MAX_TEXT_BYTES));
    with_retry(code, text, details, None)
}

/// Cuts a text at the last character that ends within `max_bytes`.
fn cut(text: &mut String, max_bytes: usize) {
    let end = (0..=max_bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
}

/// Cuts a text that is longer than `max_bytes` at a character and adds an ellipsis. Escapes characters that a terminal would
/// act on: clients print errors.
pub(super) fn truncate(mut text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes && !text.contains(is_hidden) {
        return text;
    }
    cut(&mut text, max_bytes + 4);
    text = visible_lines(&text).into_owned();
    if text.len() > max_bytes {
        cut(&mut text, max_bytes);
        text.push('…');
    }
    text
}
