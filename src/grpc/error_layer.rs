//! Tower layer that gives the errors of tonic the form of the API's errors.
//!
//! tonic itself answers with errors that carry no `google.rpc.ErrorInfo`. Clients would need a second way to read those.
//! This layer replaces them.

use std::convert::Infallible;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::Map;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::status;

/// Wraps a service in an [`ErrorService`].
#[derive(Clone, Copy)]
pub(super) struct ErrorLayer;

/// A service whose errors have the form of the API's errors.
#[derive(Clone)]
pub(super) struct ErrorService<S>(S);

type HttpResult = Result<http::Response<Body>, Infallible>;

impl<S> Layer<S> for ErrorLayer {
    type Service = ErrorService<S>;

    fn layer(&self, inner: S) -> ErrorService<S> {
        ErrorService(inner)
    }
}

impl<S, B> Service<http::Request<B>> for ErrorService<S>
where
    S: Service<http::Request<B>, Response = http::Response<Body>, Error = Infallible>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Map<S::Future, fn(HttpResult) -> HttpResult>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        self.0.call(request).map(with_api_error as fn(_) -> _)
    }
}

fn with_api_error(result: HttpResult) -> HttpResult {
    let response = result?;
    match Status::from_header_map(response.headers()) {
        // tonic answers INTERNAL without details to a request that it cannot decode. INTERNAL from the service itself
        // has details.
        Some(status) if status.code() == Code::Internal && status.details().is_empty() => {
            Ok(status::malformed(status.message().to_owned()).into_http())
        }
        _ => Ok(response),
    }
}
