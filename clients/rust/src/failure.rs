//! The error of one attempt of a call, and whether the request can be sent again.

use std::error::Error as _;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::errors::{Applied, CallError, status_text};
use super::handler_error::with_sources;
use lease_broker_proto as proto;

/// The domain of the broker's reasons.
const DOMAIN: &str = "leasebroker";

#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) code: Code,
    /// The broker's reason. Empty: the error is the connection's or this program's.
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) fields: Vec<String>,
    pub(super) pushback: Pushback,
    pub(super) applied: Applied,
}

/// The broker's word on when a request can be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushback {
    Unknown,
    Wait(Duration),
    Never,
}

impl Failure {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: String::new(),
            message: message.into(),
            fields: Vec::new(),
            pushback: Pushback::Unknown,
            applied: Applied::Unknown,
        }
    }

    /// Returns the failure of a call whose answer makes no sense. Another attempt would get the same answer.
    pub(super) fn of_answer(message: String) -> Self {
        Self {
            pushback: Pushback::Never,
            ..Self::new(Code::Internal, message)
        }
    }

    /// Returns the failure of an entry whose row is locked.
    pub(super) fn of_lock() -> Self {
        Self {
            reason: "LOCKED".to_owned(),
            applied: Applied::No,
            ..Self::new(Code::Unavailable, "another transaction has locked the row")
        }
    }

    /// Returns the failure of the claim in `next`.
    pub(super) fn of_next(error: proto::CallError) -> Self {
        let delay = error.retry_delay.map(Duration::try_from);
        Self {
            reason: error.reason,
            pushback: delay.map_or(Pushback::Never, |delay| {
                Pushback::Wait(delay.unwrap_or_default())
            }),
            applied: Applied::of_metadata(error.metadata.get("applied")),
            ..Self::new(Code::from(error.code), error.message)
        }
    }

    pub(super) fn from_status(status: &Status) -> Self {
        let info = status.get_details_error_info();
        let info = info.filter(|info| info.domain == DOMAIN);
        let (reason, applied) = info.map_or((String::new(), Applied::Unknown), |info| {
            (
                info.reason,
                Applied::of_metadata(info.metadata.get("applied")),
            )
        });
        // The message of an error of the connection has no cause, such as "connection refused". Its sources have.
        let message = status.source().map_or_else(
            || status.message().to_owned(),
            |error| explained(with_sources(error)),
        );
        let fields = status.get_details_bad_request().map(|request| {
            let fields = request.field_violations.into_iter();
            fields.map(|violation| violation.field).collect()
        });
        let mut failure = Self {
            reason,
            fields: fields.unwrap_or_default(),
            pushback: pushback(status),
            applied,
            ..Self::new(status.code(), message)
        };
        // The HTTP status 413 of a proxy gets the code that gRPC has for a request that is too large. The broker never has the
        // whole request.
        let is_of_proxy = failure.code == Code::Unknown && failure.reason.is_empty();
        if is_of_proxy && failure.message.ends_with("HTTP status code 413") {
            failure.code = Code::ResourceExhausted;
            failure.applied = Applied::No;
        }
        failure
    }

    /// Returns the code, the broker's reason and the message.
    pub(super) fn text(&self) -> String {
        status_text(self.code, &self.reason, &self.message)
    }

    /// Returns whether the broker asks to send the request again after some time.
    pub(super) fn asks_to_wait(&self) -> bool {
        matches!(self.pushback, Pushback::Wait(_))
    }

    /// Returns whether the same request can succeed later.
    pub(super) fn may_pass(&self) -> bool {
        match self.code {
            // The broker's own DEADLINE_EXCEEDED says that the attempt's time is over, not that a retry is useless.
            Code::DeadlineExceeded => true,
            _ if self.pushback != Pushback::Unknown => self.asks_to_wait(),
            Code::Unavailable | Code::Cancelled => true,
            // Without a reason of the broker the error is the connection's.
            Code::Unknown | Code::Internal => self.reason.is_empty(),
            // Without a reason of the broker it is this program's own limit, and the next response is as large.
            Code::ResourceExhausted => self.reason == "OVERLOADED",
            _ => false,
        }
    }

    /// Returns whether something between this program and the broker has answered.
    pub(super) fn is_of_the_way(&self) -> bool {
        let is_answer = matches!(self.code, Code::Unknown | Code::Internal | Code::Cancelled);
        is_answer && self.reason.is_empty() && self.pushback == Pushback::Unknown
    }

    /// Returns whether another connection, or another broker, is worth trying.
    pub(super) fn is_of_connection(&self) -> bool {
        self.code == Code::Unavailable || (self.reason.is_empty() && self.may_pass())
    }

    pub(super) fn into_error(self, rpc: &'static str) -> CallError {
        CallError {
            rpc,
            temporary: self.may_pass(),
            code: self.code,
            reason: self.reason,
            message: self.message,
            fields: self.fields,
            applied: self.applied,
        }
    }
}

/// Reads the trailer `grpc-retry-pushback-ms`, or else `google.rpc.RetryInfo`.
fn pushback(status: &Status) -> Pushback {
    if let Some(value) = status.metadata().get("grpc-retry-pushback-ms") {
        let millis = value.to_str().ok().and_then(|text| text.parse().ok());
        return millis.map_or(Pushback::Never, |millis| {
            Pushback::Wait(Duration::from_millis(millis))
        });
    }
    let info = status.get_details_retry_info();
    let delay = info.and_then(|info| info.retry_delay);
    delay.map_or(Pushback::Unknown, Pushback::Wait)
}

/// Adds the meaning to the text of an error that is only the name of a type.
fn explained(message: String) -> String {
    if message.ends_with("CaUsedAsEndEntity))") {
        let meaning =
            "the certificate of the broker is one of an authority (CA:TRUE); make it with CA:FALSE";
        return format!("{message}: {meaning}");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_of_an_authority_is_explained() {
        // The error of rustls, as the transport passes it on.
        let error = "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))";
        let status = Status::from_error(Box::new(std::io::Error::other(error)));
        let message = Failure::from_status(&status).message;
        assert!(message.ends_with("make it with CA:FALSE"), "{message}");
    }
}
