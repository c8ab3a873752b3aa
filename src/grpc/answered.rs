//! The response of a call about which something is reported when it has been answered.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

/// A running call. If it is dropped before its response, its caller has gone away.
pub(super) trait RunningCall {
    /// Reports the response.
    fn end<B>(self, response: &http::Response<B>);
}

pin_project! {
    /// A response, and the call that ends with it.
    pub(super) struct AnsweredFuture<F, C> {
        #[pin]
        response: F,
        call: Option<C>,
    }
}

impl<F, C> AnsweredFuture<F, C> {
    /// Ends `call` with the response. `None`: nothing is reported.
    pub(super) fn new(response: F, call: Option<C>) -> Self {
        Self { response, call }
    }
}

impl<F, B, E, C> Future for AnsweredFuture<F, C>
where
    F: Future<Output = Result<http::Response<B>, E>>,
    C: RunningCall,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(context));
        if let (Ok(response), Some(call)) = (&response, this.call.take()) {
            call.end(response);
        }
        Poll::Ready(response)
    }
}
