//! The table from errors to gRPC status codes and reasons. All errors that the API returns are built here.
//!
//! Each status carries a `google.rpc.ErrorInfo` with the reason. `lease_broker.proto` documents the table for clients.
//!
//! Each status also tells the client's retry policy what to do, in the trailer `grpc-retry-pushback-ms` (gRFC A6): the
//! delay in `google.rpc.RetryInfo`, or -1 if a retry cannot help. No gRPC library reads `RetryInfo`.

use std::collections::HashMap;
use std::time::Duration;

use lease_broker_model::text::{Quoted, is_hidden, visible_lines};
use lease_broker_proto as proto;
use lease_broker_store::Applied;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::overload_limit;
use super::protobuf_time::duration_to_proto;
use super::reason::Reason;
use crate::broker::{Error, OverloadCause};
use crate::security::OverLimit;

/// The domain of every `google.rpc.ErrorInfo`.
const DOMAIN: &str = "leasebroker";
/// The maximum bytes of a text, and of a field's path. Both can quote what the caller sent. A status travels in HTTP
/// headers and repeats the text, and clients refuse headers of more than 8 KiB.
pub(super) const MAX_TEXT_BYTES: usize = 1_024;
pub(super) const MAX_FIELD_BYTES: usize = 256;

/// An error of the API.
struct ApiError {
    code: Code,
    reason: Reason,
    text: String,
    /// The metadata of `google.rpc.ErrorInfo`, besides `applied`.
    metadata: Vec<(&'static str, String)>,
    /// The path of the field that the error is about, and its problem.
    violation: Option<(String, String)>,
    /// The time to wait before the call is sent again. `None`: sending it again does not help.
    retry_after: Option<Duration>,
    applied: Applied,
}

impl ApiError {
    /// Returns an error of a call that was not applied.
    fn new(code: Code, reason: Reason, text: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            text: truncate(text.into(), MAX_TEXT_BYTES),
            metadata: Vec::new(),
            violation: None,
            retry_after: None,
            applied: Applied::No,
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.metadata.push((name, value.into()));
        self
    }

    fn on_field(mut self, field: String, problem: String) -> Self {
        let field = truncate(field, MAX_FIELD_BYTES);
        self.violation = Some((field.clone(), truncate(problem, MAX_TEXT_BYTES)));
        self.with("field", field)
    }

    fn after(mut self, retry_after: impl Into<Option<Duration>>) -> Self {
        self.retry_after = retry_after.into();
        self
    }

    /// Returns the metadata of `google.rpc.ErrorInfo`.
    fn metadata<M: FromIterator<(String, String)>>(&self) -> M {
        let applied = ("applied", self.applied.name().to_owned());
        let metadata = self.metadata.iter().cloned().chain([applied]);
        metadata
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let mut details = ErrorDetails::with_error_info(
            error.reason.name(),
            DOMAIN,
            error.metadata::<HashMap<_, _>>(),
        );
        if let Some((field, problem)) = error.violation {
            details.add_bad_request_violation(field, problem);
        }
        if error.retry_after.is_some() {
            details.set_retry_info(error.retry_after);
        }
        let pushback = pushback(error.retry_after);
        Self::with_error_details_and_metadata(error.code, error.text, details, pushback)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        use Code::{FailedPrecondition, Internal, InvalidArgument, NotFound, Unavailable};
        let (text, applied) = (error.to_string(), error.applied());
        let converted = match error {
            Error::InvalidField { field, problem } => {
                Self::new(InvalidArgument, Reason::InvalidField, text).on_field(field, problem)
            }
            Error::AlreadyExists { field, problem } => {
                Self::new(Code::AlreadyExists, Reason::AlreadyExists, text).on_field(field, problem)
            }
            Error::LimitExceeded {
                field,
                problem,
                value,
                max,
            } => {
                let error = Self::new(InvalidArgument, Reason::LimitExceeded, text)
                    .on_field(field, problem)
                    .with("max", max);
                match value {
                    Some(value) => error.with("value", value),
                    None => error,
                }
            }
            Error::QueueNotFound(queue) => Self::new(NotFound, Reason::QueueNotFound, text)
                .with("queue", truncate(queue, MAX_FIELD_BYTES)),
            Error::Draining => {
                Self::new(Unavailable, Reason::Draining, text).after(Duration::from_millis(100))
            }
            Error::LeaseIdTooNew { .. } | Error::SecretNotRead { .. } => {
                Self::new(Unavailable, Reason::LeaseIdTooNew, text)
                    .after(Duration::from_millis(500))
            }
            Error::StoreUnavailable {
                outage,
                retry_after,
            } => {
                let error = Self::new(Unavailable, Reason::StoreUnavailable, text)
                    .with("tries", outage.tries.to_string())
                    .after(retry_after);
                match outage.number {
                    Some(number) => error.with("server_error", number.to_string()),
                    None => error,
                }
            }
            Error::QueuePaused { queue, .. } => {
                Self::new(FailedPrecondition, Reason::QueuePaused, text).with("queue", queue)
            }
            Error::OperationRunning(id) => {
                Self::new(FailedPrecondition, Reason::OperationRunning, text)
                    .with("operation_id", id.to_string())
            }
            Error::PurgeNotAllowed(_) => {
                Self::new(FailedPrecondition, Reason::PurgeNotAllowed, text)
            }
            Error::ItemNotFound(_) => Self::new(NotFound, Reason::ItemNotFound, text),
            Error::OperationNotFound(_) => Self::new(NotFound, Reason::OperationNotFound, text),
            Error::BrokerNotFound(_) => Self::new(NotFound, Reason::BrokerNotFound, text),
            Error::StoreMisconfigured(_) => {
                Self::new(FailedPrecondition, Reason::StoreMisconfigured, text)
            }
            Error::Overloaded { cause, retry_after } => {
                let error =
                    Self::new(Code::ResourceExhausted, Reason::Overloaded, text).after(retry_after);
                match cause {
                    OverloadCause::Budget(budget) => error.with("budget", budget),
                    OverloadCause::Delay => error.with("limit", overload_limit::DATABASE),
                }
            }
            Error::Withdrawn => Self::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, text),
            Error::Partly(part) => (*part).into(),
            Error::Internal => Self::new(Internal, Reason::Internal, text),
        };
        Self {
            applied,
            ..converted
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        ApiError::from(error).into()
    }
}

/// Converts the error of a claim that is part of another call.
pub(super) fn call_error(error: Error) -> proto::CallError {
    let error = ApiError::from(error);
    proto::CallError {
        code: error.code.into(),
        reason: error.reason.name().to_owned(),
        metadata: error.metadata(),
        retry_delay: error.retry_after.map(duration_to_proto),
        message: error.text,
    }
}

/// Takes the advice to repeat the call from an error, if the call may have been applied and would be applied twice.
pub(super) fn unless_repeatable(status: Status, can_be_repeated: bool) -> Status {
    let Some(info) = status.get_details_error_info() else {
        return status;
    };
    let applied = info.metadata.get("applied");
    let may_be_applied = applied.is_some_and(|applied| applied == Applied::Unknown.name());
    if can_be_repeated || !may_be_applied {
        return status;
    }
    // `set_retry_info(None)` would add an advice to repeat the call at once.
    let mut details = ErrorDetails::with_error_info(info.reason, info.domain, info.metadata);
    if let Some(fields) = status.get_details_bad_request() {
        details.set_bad_request(fields.field_violations);
    }
    let text = status.message();
    Status::with_error_details_and_metadata(status.code(), text, details, pushback(None))
}

/// Returns the status for a call whose deadline is about to pass.
pub(super) fn deadline_exceeded(applied: Applied) -> Status {
    let text = match applied {
        Applied::No => "the deadline passed before the store was asked; the call was not applied",
        Applied::Unknown => {
            "the deadline passed before the store answered; the call may have been applied"
        }
    };
    let error = ApiError::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, text);
    ApiError { applied, ..error }.into()
}

/// Returns the status for a call on a connection that ends.
pub(super) fn connection_ends() -> Status {
    let text = "this connection is being closed; send the call again over another";
    let error = ApiError::new(Code::Unavailable, Reason::Draining, text);
    error.after(Duration::from_millis(100)).into()
}

/// Returns the status for a path that the service does not have.
pub(super) fn rpc_unknown(path: &str) -> Status {
    let text = format!(
        "the service has no rpc {}: the client is of another version of the API, leasebroker.v1.LeaseService",
        Quoted(path)
    );
    ApiError::new(Code::Unimplemented, Reason::RpcUnknown, text).into()
}

/// Returns the status for a request that cannot be decoded as a message of the API. `text` gives the cause.
pub(super) fn malformed(text: String) -> Status {
    ApiError::new(Code::InvalidArgument, Reason::InvalidField, text).into()
}

/// Returns the status for a request whose last byte has not arrived within `timeout`. A network that has stalled can do that, so the
/// call can be sent again.
pub(super) fn incomplete(timeout: Duration) -> Status {
    let timeout = humantime::format_duration(timeout);
    let text = format!("the request did not arrive completely within {timeout}");
    let error = ApiError::new(Code::Unavailable, Reason::RequestIncomplete, text);
    error.after(Duration::from_millis(100)).into()
}

/// Returns the status for a request that is compressed with `encoding`.
pub(super) fn compressed(encoding: &str) -> Status {
    let text = format!(
        "the request is compressed with {}, and the service reads no compressed requests; turn the compression of the client \
         off, so that it does not send the header grpc-encoding",
        Quoted(encoding)
    );
    let error = ApiError::new(Code::Unimplemented, Reason::CompressionUnsupported, text);
    let mut status = Status::from(error);
    let supported = MetadataValue::from_static("identity");
    status
        .metadata_mut()
        .insert("grpc-accept-encoding", supported);
    status
}

/// Returns the status for a request of `length` bytes, above the configured message size `max`.
pub(super) fn message_too_large(length: usize, max: usize) -> Status {
    let text = format!("the message has {length} bytes, which exceed the limit of {max} bytes");
    let error = ApiError::new(Code::ResourceExhausted, Reason::LimitExceeded, text);
    let error = error.with("value", length.to_string());
    error.with("max", max.to_string()).into()
}

/// Returns the status for a call without credentials.
pub(super) fn credentials_missing() -> Status {
    let text = "the call has no credentials";
    ApiError::new(Code::Unauthenticated, Reason::CredentialsMissing, text).into()
}

/// Returns the status for a call whose credentials are not valid. It is the same for every cause. `retry_after`: the keys
/// of tokens are being fetched.
pub(super) fn credentials_invalid(retry_after: Option<Duration>) -> Status {
    let text = "the credentials are not valid";
    let error = ApiError::new(Code::Unauthenticated, Reason::CredentialsInvalid, text);
    error.after(retry_after).into()
}

/// Returns the status for a call whose token was not verified, because too many unknown tokens arrive.
pub(super) fn token_not_verified(retry_after: Duration) -> Status {
    let text = "too many unknown tokens arrive; send the call again after the delay in RetryInfo";
    let error = ApiError::new(Code::ResourceExhausted, Reason::Overloaded, text);
    let error = error.with("limit", overload_limit::UNKNOWN_TOKENS);
    error.after(retry_after).into()
}

/// Returns the status for a caller without a role that the rpc needs. It is the same whether a queue exists or not. `action`: the
/// rpc, or the use of it that needs the role.
pub(super) fn role_missing(rpc: &str, action: &str, needed: &str) -> Status {
    let text = format!("{action} needs the role {needed} on this queue");
    let error = ApiError::new(Code::PermissionDenied, Reason::RoleMissing, text);
    error.with("rpc", rpc).with("role", needed).into()
}

/// Returns the status for a call of a service that callers with any role may use.
pub(super) fn any_role_missing(service: &str) -> Status {
    let text = format!("{service} needs a role on any queue");
    let error = ApiError::new(Code::PermissionDenied, Reason::RoleMissing, text);
    error.with("rpc", service).with("role", "any role").into()
}

/// Returns the status for a call over a limit of its identity.
pub(super) fn identity_limit(over: OverLimit) -> Status {
    let OverLimit { limit, retry_after } = over;
    let text = format!(
        "the limit {limit} of the caller's identity is reached; send the call again after the delay in RetryInfo"
    );
    let error = ApiError::new(Code::ResourceExhausted, Reason::IdentityLimit, text);
    error.with("limit", limit).after(retry_after).into()
}

/// Returns the trailer that makes a client's retry policy wait for this time, or stop. Whole milliseconds.
fn pushback(retry_after: Option<Duration>) -> MetadataMap {
    let millis = retry_after.and_then(|delay| u32::try_from(delay.as_millis()).ok());
    let mut metadata = MetadataMap::new();
    let value = millis.map_or(MetadataValue::from_static("-1"), MetadataValue::from);
    metadata.insert("grpc-retry-pushback-ms", value);
    metadata
}

/// The end of a text that was cut.
const ELLIPSIS: &str = "…";

/// Cuts a text at the last character that ends within `max_bytes`.
fn cut(text: &mut String, max_bytes: usize) {
    let end = (0..=max_bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
}

/// Cuts a text that is longer than `max_bytes` at a character, and ends it with an ellipsis. Escapes characters that a terminal would
/// act on: clients print errors.
pub(super) fn truncate(mut text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes && !text.contains(is_hidden) {
        return text;
    }
    cut(&mut text, max_bytes + 4);
    text = visible_lines(&text).into_owned();
    if text.len() > max_bytes {
        cut(&mut text, max_bytes - ELLIPSIS.len());
        text.push_str(ELLIPSIS);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_that_may_be_applied_twice_has_no_advice_to_repeat_it() {
        let failed = || Status::from(Error::Partly(Box::new(Error::Draining)));
        assert!(failed().get_details_retry_info().is_some());
        let repeatable = unless_repeatable(failed(), true);
        assert!(repeatable.get_details_retry_info().is_some());
        for status in [failed(), deadline_exceeded(Applied::Unknown)] {
            let status = unless_repeatable(status, false);
            assert!(status.get_details_retry_info().is_none());
            let pushback = status.metadata().get("grpc-retry-pushback-ms");
            assert_eq!(pushback.expect("an advice"), "-1");
            let info = status.get_details_error_info().expect("the reason");
            assert_eq!(info.domain, DOMAIN);
        }
    }

    #[test]
    fn long_text_is_cut_to_its_limit() {
        for text in ["x".repeat(1_025), "é\u{7}".repeat(900)] {
            let cut = truncate(text, MAX_TEXT_BYTES);
            assert!((MAX_TEXT_BYTES - 2..=MAX_TEXT_BYTES).contains(&cut.len()));
            assert!(cut.ends_with(ELLIPSIS));
        }
        let fits = "x".repeat(1_024);
        assert_eq!(truncate(fits.clone(), MAX_TEXT_BYTES), fits);
    }
}
