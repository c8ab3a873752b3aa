//! Tower layer that gives errors from tonic and from load shedding the form of the API's errors.
//!
//! The layers below and tonic itself answer with errors that carry no `google.rpc.ErrorInfo`. Clients would need a
//! second way to read those. This layer replaces them. It also counts the running calls, so that the server can wait
//! for them when it stops.

use std::convert::Infallible;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::Map;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TrackedFuture;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{BoxError, Layer, Service};

use super::status;

/// Wraps a service in an [`ErrorService`].
#[derive(Clone)]
pub(super) struct ErrorLayer {
    /// Tracks the running calls.
    pub(super) calls: TaskTracker,
}

/// A service that answers every error as a gRPC response. It never returns an error itself.
#[derive(Clone)]
pub(super) struct ErrorService<S> {
    inner: S,
    calls: TaskTracker,
}

type HttpResult<E> = Result<http::Response<Body>, E>;

impl<S> Layer<S> for ErrorLayer {
    type Service = ErrorService<S>;

    fn layer(&self, inner: S) -> ErrorService<S> {
        ErrorService {
            inner,
            calls: self.calls.clone(),
        }
    }
}

impl<S> Service<http::Request<Body>> for ErrorService<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = BoxError>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = TrackedFuture<Map<S::Future, fn(HttpResult<BoxError>) -> HttpResult<Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The load-shedding layer below is always ready. It refuses calls in `call`, so no error is lost here.
        self.inner.poll_ready(context).map(|_| Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let response = self.inner.call(request).map(with_api_error as fn(_) -> _);
        self.calls.track_future(response)
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the future of a service returns a result"
)]
fn with_api_error(result: HttpResult<BoxError>) -> HttpResult<Infallible> {
    // Load shedding is the only layer below that returns an error instead of a response.
    let Ok(response) = result else {
        return Ok(status::overloaded().into_http());
    };
    match Status::from_header_map(response.headers()) {
        // tonic answers OUT_OF_RANGE to a request that is larger than the configured maximum.
        Some(status) if status.code() == Code::OutOfRange => {
            Ok(status::message_too_large(status.message().to_owned()).into_http())
        }
        // tonic answers INTERNAL without details to a request that it cannot decode. INTERNAL from the service itself
        // has details.
        Some(status) if status.code() == Code::Internal && status.details().is_empty() => {
            Ok(status::malformed(status.message().to_owned()).into_http())
        }
        _ => Ok(response),
    }
}
