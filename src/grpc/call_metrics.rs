//! Measures calls: their number, duration and result, and the reasons of refusals.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lease_broker_proto as proto;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::connection_counts::ConnectionCounts;
use super::method::full_name;
use super::overload_limit;
use super::reason::Reason;
use crate::security::Rpc;

/// The method of calls to methods that the API does not have, and the reason of errors that the broker has not made.
const OTHER: &str = "_OTHER";

/// The names of the gRPC status codes, in the order of their numbers.
pub const CODE_NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Returns the index of a status code in [`CODE_NAMES`].
pub(super) fn code_index(code: Code) -> usize {
    // Every code of tonic is in the table.
    let index = usize::try_from(i32::from(code)).unwrap_or(2);
    index.min(CODE_NAMES.len() - 1)
}

/// Returns the name of a status code, such as `DEADLINE_EXCEEDED`.
pub(super) fn code_name(code: Code) -> &'static str {
    CODE_NAMES[code_index(code)]
}

/// Returns the name of a status code if the semantic conventions count it as a failure of the server. `UNIMPLEMENTED` is one of these,
/// also if the client is of another version. `code`: its index in [`CODE_NAMES`].
pub fn error_type(code: usize) -> Option<&'static str> {
    let name = CODE_NAMES[code];
    let is_error = matches!(
        name,
        "UNKNOWN"
            | "DEADLINE_EXCEEDED"
            | "UNIMPLEMENTED"
            | "INTERNAL"
            | "UNAVAILABLE"
            | "DATA_LOSS"
    );
    is_error.then_some(name)
}

/// Receives the duration and the result of each call. The first argument is the index in
/// [`CallMetrics::method_names`], the second one the index of the status code in [`CODE_NAMES`].
type CallObserver = Box<dyn Fn(usize, usize, Duration) + Send + Sync>;

/// The counters of the calls of a server.
pub struct CallMetrics {
    active: Vec<AtomicU64>,
    /// In the order of [`Reason::ALL`]. The last one stands for all other reasons.
    refused: [AtomicU64; Reason::ALL.len() + 1],
    /// Those refused with [`Reason::Overloaded`], in the order of [`overload_limit::names`]. The last one stands for all other limits.
    overloaded: Box<[AtomicU64]>,
    observer: CallObserver,
    /// The connections that carry the calls.
    pub connections: Arc<ConnectionCounts>,
}

impl CallMetrics {
    /// Creates counters, and passes the duration of each call to `observer`.
    pub fn new(observer: impl Fn(usize, usize, Duration) + Send + Sync + 'static) -> Self {
        let methods = Self::method_names();
        Self {
            active: methods.iter().map(|_| AtomicU64::new(0)).collect(),
            refused: Default::default(),
            overloaded: limits().map(|_| AtomicU64::new(0)).collect(),
            observer: Box::new(observer),
            connections: Arc::default(),
        }
    }

    /// Returns the full names of the API's rpcs, such as `leasebroker.v1.LeaseService/Fail`, in the order of [`Rpc::ALL`]. The
    /// last one, `_OTHER`, stands for rpcs that the API does not have.
    pub fn method_names() -> Vec<String> {
        let methods = Rpc::ALL.into_iter().map(full_name);
        methods.chain([OTHER.to_owned()]).collect()
    }

    /// Returns the number of running calls of each method, in the order of [`Self::method_names`].
    pub fn active(&self) -> impl Iterator<Item = u64> {
        let active = self.active.iter();
        active.map(|calls| calls.load(Ordering::Relaxed))
    }

    /// Returns the number of refused calls for each reason of `google.rpc.ErrorInfo`, and for each limit if the reason is `OVERLOADED`.
    pub fn refused(&self) -> impl Iterator<Item = RefusedCalls> {
        let load = |calls: &AtomicU64| calls.load(Ordering::Relaxed);
        let reasons = Reason::ALL.into_iter().map(Reason::name).chain([OTHER]);
        let others = reasons.zip(&self.refused).map(move |(reason, calls)| {
            let (limit, calls) = (None, load(calls));
            RefusedCalls {
                reason,
                limit,
                calls,
            }
        });
        let overloaded = Reason::Overloaded.name();
        let others = others.filter(move |refused| refused.reason != overloaded);
        let by_limit = limits()
            .zip(&self.overloaded)
            .map(move |(limit, calls)| RefusedCalls {
                reason: overloaded,
                limit: Some(limit),
                calls: load(calls),
            });
        others.chain(by_limit)
    }

    /// Counts a call that starts. `None`: the API has no such rpc.
    pub(super) fn start(self: &Arc<Self>, rpc: Option<Rpc>) -> MeasuredCall {
        let method = rpc.map_or(Rpc::ALL.len(), |rpc| rpc as usize);
        self.active[method].fetch_add(1, Ordering::Relaxed);
        MeasuredCall {
            metrics: self.clone(),
            method,
            start: Instant::now(),
            code: Code::Cancelled,
        }
    }

    fn add_refused(&self, status: &Status) {
        match status.get_details_error_info() {
            Some(info) => self.add_reason(&info.reason, |name| info.metadata.get(name)),
            None => self.add_reason(OTHER, |_| None),
        }
    }

    /// Counts a refused call. `metadata`: finds a value in the metadata of its error, such as the limit that was reached.
    fn add_reason<'a>(&self, reason: &str, metadata: impl Fn(&str) -> Option<&'a String>) {
        let counter = if reason == Reason::Overloaded.name() {
            let limit = metadata("budget").or_else(|| metadata("limit"));
            let index = limits().position(|name| limit.is_some_and(|limit| name == limit));
            &self.overloaded[index.unwrap_or(self.overloaded.len() - 1)]
        } else {
            let index = Reason::ALL
                .into_iter()
                .position(|known| known.name() == reason);
            &self.refused[index.unwrap_or(Reason::ALL.len())]
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A number of calls that were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedCalls {
    /// The reason in `google.rpc.ErrorInfo`. `_OTHER`: another one, or none.
    pub reason: &'static str,
    /// The limit that was reached, if the reason is `OVERLOADED`.
    pub limit: Option<&'static str>,
    /// The number of calls.
    pub calls: u64,
}

/// The limits of [`CallMetrics::overloaded`].
fn limits() -> impl Iterator<Item = &'static str> {
    overload_limit::names().chain([OTHER])
}

/// A refused claim in the response of a call that has succeeded otherwise.
#[derive(Clone)]
pub(super) struct RefusedClaim(pub(super) proto::CallError);

/// A running call. When it is dropped before its response, it counts as cancelled by its caller.
pub(super) struct MeasuredCall {
    metrics: Arc<CallMetrics>,
    method: usize,
    start: Instant,
    code: Code,
}

impl MeasuredCall {
    /// Counts the call as answered. Only a failed call has its status in the headers of the response.
    pub(super) fn end<B>(mut self, response: &http::Response<B>) {
        self.code = match Status::from_header_map(response.headers()) {
            None => {
                if let Some(RefusedClaim(error)) = response.extensions().get() {
                    let metadata = |name: &str| error.metadata.get(name);
                    self.metrics.add_reason(&error.reason, metadata);
                }
                Code::Ok
            }
            Some(status) => {
                if !matches!(status.code(), Code::Ok | Code::Cancelled) {
                    self.metrics.add_refused(&status);
                }
                status.code()
            }
        };
    }
}

impl Drop for MeasuredCall {
    fn drop(&mut self) {
        self.metrics.active[self.method].fetch_sub(1, Ordering::Relaxed);
        let code = code_index(self.code);
        (self.metrics.observer)(self.method, code, self.start.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::super::status::{
        credentials_invalid, credentials_missing, identity_limit, role_missing, token_not_verified,
    };
    use super::*;
    use crate::broker::{Error, OverloadCause};
    use crate::security::OverLimit;

    #[test]
    fn refused_credentials_and_rights_count_by_reason() {
        let metrics = CallMetrics::new(|_, _, _| ());
        let over = OverLimit {
            limit: "calls_per_second",
            retry_after: Duration::from_millis(1),
        };
        for status in [
            credentials_missing(),
            credentials_invalid(None),
            role_missing("Enqueue", "Enqueue", "producer"),
            identity_limit(over),
            token_not_verified(Duration::from_millis(1)),
            Status::internal("not the broker's"),
        ] {
            metrics.add_refused(&status);
        }
        let counted = metrics.refused().filter(|refused| refused.calls > 0);
        let counted: Vec<_> = counted
            .map(
                |RefusedCalls {
                     reason,
                     limit,
                     calls,
                 }| (reason, limit, calls),
            )
            .collect();
        let expected = [
            ("CREDENTIALS_MISSING", None, 1),
            ("CREDENTIALS_INVALID", None, 1),
            ("ROLE_MISSING", None, 1),
            ("IDENTITY_LIMIT", None, 1),
            (OTHER, None, 1),
            ("OVERLOADED", Some("unknown_tokens"), 1),
        ];
        assert_eq!(counted, expected);
    }

    #[test]
    fn overloaded_calls_count_by_their_limit() {
        let metrics = CallMetrics::new(|_, _, _| ());
        for cause in [
            OverloadCause::Budget("waiting_claims"),
            OverloadCause::Delay,
            OverloadCause::Budget("unknown to metrics"),
        ] {
            let retry_after = Duration::from_millis(1);
            metrics.add_refused(&Error::Overloaded { cause, retry_after }.into());
        }
        let counted = metrics.refused().filter(|refused| refused.calls > 0);
        let limits: Vec<_> = counted.map(|refused| refused.limit).collect();
        assert_eq!(limits, ["waiting_claims", "database", OTHER].map(Some));
    }
}
