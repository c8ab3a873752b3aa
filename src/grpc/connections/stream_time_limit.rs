//! The time limit for sending a response. A client that does not read a response loses its stream.
//!
//! hyper sends a response in the task of its stream, and waits there until the client has room for it. hyper has no time
//! limit for this. Each task is therefore wrapped. When it ends early, it drops the task, and hyper resets the stream.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Sleep;

tokio::task_local! {
    /// The time limit for the rest of the stream. The service sets it while hyper polls it.
    static TIME_LIMIT: Cell<Option<Duration>>;
}

/// Limits the time from now until the response of this stream has been sent. Must be called by the service of a
/// connection while it answers.
pub(in crate::grpc) fn limit_response_time(limit: Duration) {
    let _ = TIME_LIMIT.try_with(|cell| cell.set(Some(limit)));
}

pin_project! {
    /// A stream that ends at its time limit.
    pub(super) struct TimedStream<F> {
        #[pin]
        stream: F,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<F> TimedStream<F> {
    pub(super) fn new(stream: F) -> Self {
        Self {
            stream,
            timer: None,
        }
    }
}

impl<F: Future<Output = ()>> Future for TimedStream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let poll = || (this.stream.poll(context), TIME_LIMIT.with(Cell::get));
        let (ended, limit) = TIME_LIMIT.sync_scope(Cell::new(None), poll);
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn stream_ends_at_its_limit() {
        let start = Instant::now();
        TimedStream::new(async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            limit_response_time(Duration::from_secs(3));
            std::future::pending::<()>().await;
        })
        .await;
        assert_eq!(start.elapsed().as_secs(), 103);
    }

    #[tokio::test(start_paused = true)]
    async fn stream_without_limit_ends_by_itself() {
        let start = Instant::now();
        TimedStream::new(tokio::time::sleep(Duration::from_secs(100))).await;
        assert_eq!(start.elapsed().as_secs(), 100);
    }
}
