//! A layer that gives every failure of the layers below, and of tonic itself, the form of the API's errors.

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

/// Makes [`ErrorService`]s.
#[derive(Clone)]
pub(super) struct ErrorLayer {
    /// Knows the calls under way.
    pub(super) calls: TaskTracker,
}

/// A service that never fails.
#[derive(Clone)]
pub(super) struct ErrorService<S> {
    inner: S,
    calls: TaskTracker,
}

type Outcome<E> = Result<http::Response<Body>, E>;

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
    type Future = TrackedFuture<Map<S::Future, fn(Outcome<BoxError>) -> Outcome<Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Load shedding is always ready: it refuses in `call`.
        self.inner.poll_ready(context).map(|_| Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = self.inner.call(request).map(answer as fn(_) -> _);
        self.calls.track_future(answer)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a service answers with a result")]
fn answer(outcome: Outcome<BoxError>) -> Outcome<Infallible> {
    let Ok(response) = outcome else {
        return Ok(status::overloaded().into_http());
    };
    match Status::from_header_map(response.headers()) {
        // What tonic says of a request that is larger than it may be.
        Some(status) if status.code() == Code::OutOfRange => {
            Ok(status::message_too_large(status.message().to_owned()).into_http())
        }
        // What tonic says of a request that it can't read; the service's own statuses have details.
        Some(status) if status.code() == Code::Internal && status.details().is_empty() => {
            Ok(status::malformed(status.message().to_owned()).into_http())
        }
        _ => Ok(response),
    }
}
