//! A stream of a connection. It ends when its client has not taken the response in time, or when it panics.
//!
//! hyper sends a response in the task of its stream, and waits there, without a limit, until the client has room for it. When
//! the wrapped task ends early, it is dropped, and hyper resets the stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::time::Sleep;

use super::connection::Connection;
use crate::grpc::caught::catch;

pin_project! {
    /// A stream that ends at its time limit.
    pub(super) struct TimedStream<F> {
        #[pin]
        stream: F,
        connection: Arc<Connection>,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<F> TimedStream<F> {
    pub(super) fn new(stream: F, connection: Arc<Connection>) -> Self {
        Self {
            stream,
            connection,
            timer: None,
        }
    }
}

impl<F: Future<Output = ()>> Future for TimedStream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let stream = this.stream;
        let Some(ended) = catch(|| stream.poll(context)) else {
            return Poll::Ready(());
        };
        // The streams of a connection run one after the other, so this limit is that of this stream.
        let limit = this.connection.take_response_limit();
        if ended.is_ready() {
            return Poll::Ready(());
        }
        if let Some(limit) = limit {
            *this.timer = Some(Box::pin(tokio::time::sleep(limit)));
        }
        match this.timer {
            Some(timer) => timer.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}
