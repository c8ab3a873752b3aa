//! Tower layer that measures each call of the API with [`CallMetrics`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tonic::body::Body;
use tower::{Layer, Service};

use super::call_metrics::{CallMetrics, MeasuredCall};

/// Wraps a service in a [`MeasuredService`].
#[derive(Clone)]
pub(super) struct MeasureLayer(pub(super) Arc<CallMetrics>);

/// A service whose calls are measured.
#[derive(Clone)]
pub(super) struct MeasuredService<S> {
    inner: S,
    metrics: Arc<CallMetrics>,
}

impl<S> Layer<S> for MeasureLayer {
    type Service = MeasuredService<S>;

    fn layer(&self, inner: S) -> MeasuredService<S> {
        MeasuredService {
            inner,
            metrics: self.0.clone(),
        }
    }
}

impl<S> Service<http::Request<Body>> for MeasuredService<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = MeasuredFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let call = self.metrics.start(request.uri().path());
        MeasuredFuture {
            response: self.inner.call(request),
            call: Some(call),
        }
    }
}

pin_project! {
    /// The response of a measured call.
    pub(super) struct MeasuredFuture<F> {
        #[pin]
        response: F,
        call: Option<MeasuredCall>,
    }
}

impl<F, E> Future for MeasuredFuture<F>
where
    F: Future<Output = Result<http::Response<Body>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(context));
        if let (Ok(response), Some(call)) = (&response, this.call.take()) {
            call.end(response.headers());
        }
        Poll::Ready(response)
    }
}
