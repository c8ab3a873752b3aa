//! Measures each call of the API with [`CallMetrics`].

use std::sync::Arc;
use std::task::{Context, Poll};

use tower::Service;

use super::answered::AnsweredFuture;
use super::call_metrics::{CallMetrics, MeasuredCall};
use crate::security::Rpc;

/// A service whose calls are measured.
#[derive(Clone)]
pub(super) struct MeasuredService<S> {
    pub(super) inner: S,
    pub(super) metrics: Arc<CallMetrics>,
}

impl<S, B, R> Service<http::Request<B>> for MeasuredService<S>
where
    S: Service<http::Request<B>, Response = http::Response<R>>,
{
    type Response = http::Response<R>;
    type Error = S::Error;
    type Future = AnsweredFuture<S::Future, MeasuredCall>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let call = self
            .metrics
            .start(request.extensions().get::<Rpc>().copied());
        AnsweredFuture::new(self.inner.call(request), Some(call))
    }
}
