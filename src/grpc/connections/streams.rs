//! Runs the streams of a connection in the task of the connection.
//!
//! hyper hands each stream to an executor. If each were a task of its own, the streams of all connections would wait in one
//! queue, and the calls of a greedy connection would delay those of all others. Here a connection has one place in the
//! scheduler's queue, however many streams it has, so connections take turns.
//!
//! A turn runs the streams that are ready, sends their responses together, and then reads a bounded number of bytes. It sends
//! before it reads, because a reset that is read removes what is not sent yet. The service would not learn that, and the leases of
//! the response would stay with a worker that has not received them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyper::rt::Executor;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::Connection;
use super::timed_stream::TimedStream;

/// The bytes that a turn reads after one that has opened streams: about ten small calls.
const CALL_BYTES: usize = 1 << 10;
/// The bytes that a turn reads after one that has opened none: a frame of a large request.
const BULK_BYTES: usize = 16 << 10;

/// The length of the HTTP/2 preface, and of the header of the frame after it.
const GREETING_BYTES: u64 = 24 + 9;
/// The bytes that the connection may still read in this turn, or [`NOT_YET`].
pub(super) type ReadAllowance = Arc<AtomicUsize>;

/// The allowance while the connection only sends. It reads later in the same turn.
pub(super) const NOT_YET: usize = usize::MAX;

type Stream = TimedStream<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// Takes the streams that hyper opens.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    opened: UnboundedSender<Stream>,
    connection: Arc<Connection>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        // It fails only if the connection has ended.
        let stream = TimedStream::new(Box::pin(stream) as Pin<Box<_>>, self.connection.clone());
        let _ = self.opened.send(stream);
    }
}

/// The open streams of a connection.
pub(super) struct Streams {
    opened: UnboundedReceiver<Stream>,
    running: FuturesUnordered<Stream>,
    /// Whether a stream has ended since the connection has sent what streams leave to it. Most end with their response.
    has_ended: bool,
    /// What is left of `allowed`.
    allowance: ReadAllowance,
    allowed: usize,
    received_bytes: u64,
    connection: Arc<Connection>,
}

impl Streams {
    /// Creates the streams of a connection, the executor for its HTTP/2, and the limit of its reads.
    pub(super) fn new(connection: Arc<Connection>) -> (Self, StreamExecutor, ReadAllowance) {
        let (sender, opened) = unbounded_channel();
        let executor = StreamExecutor {
            opened: sender,
            connection: connection.clone(),
        };
        let allowance = ReadAllowance::new(AtomicUsize::new(CALL_BYTES));
        let streams = Self {
            opened,
            running: FuturesUnordered::new(),
            has_ended: false,
            allowance: allowance.clone(),
            allowed: CALL_BYTES,
            received_bytes: 0,
            connection,
        };
        (streams, executor, allowance)
    }

    /// Runs a turn of the connection `http` and its streams. Ready when the connection has ended.
    pub(super) fn poll_turn<H: Future>(
        &mut self,
        mut http: Pin<&mut H>,
        context: &mut Context<'_>,
    ) -> Poll<H::Output> {
        self.run_streams(context);
        if std::mem::take(&mut self.has_ended) {
            let left = self.allowance.swap(NOT_YET, Ordering::Relaxed);
            let sent = http.as_mut().poll(context);
            self.allowance.store(left, Ordering::Relaxed);
            if let Poll::Ready(ended) = sent {
                return Poll::Ready(ended);
            }
        }
        if let Poll::Ready(ended) = http.poll(context) {
            return Poll::Ready(ended);
        }
        let mut has_opened = false;
        while let Ok(stream) = self.opened.try_recv() {
            self.running.push(stream);
            has_opened = true;
        }
        if has_opened {
            self.run_streams(context);
        }
        let read = self.allowed - self.allowance.load(Ordering::Relaxed);
        self.received_bytes += read as u64;
        self.allowed = if !self.connection.count_arrived(read) {
            NOT_YET
        } else if has_opened {
            CALL_BYTES
        } else {
            BULK_BYTES
        };
        self.allowance.store(self.allowed, Ordering::Relaxed);
        Poll::Pending
    }

    /// Returns whether the client has sent the HTTP/2 preface and the header of its first frame. hyper does not report the end of
    /// the handshake. A client that has not sent these bytes has no call.
    pub(super) fn has_greeting(&self) -> bool {
        self.received_bytes >= GREETING_BYTES
    }

    /// Runs the streams that are ready. What they send wakes the connection.
    fn run_streams(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(())) = self.running.poll_next_unpin(context) {
            self.has_ended = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::{CONTROL_BYTES, CONTROL_BYTES_OF_CALL};
    use super::*;
    use std::future::{pending, poll_fn};
    use std::pin::pin;
    use std::task::Waker;

    fn turn(streams: &mut Streams, http: impl Future<Output = ()>) -> Poll<()> {
        streams.poll_turn(pin!(http), &mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn stream_runs_in_the_turn_that_opens_it() {
        let (mut streams, executor, allowance) = Streams::new(Connection::of_test(false));
        let runs = Arc::new(AtomicUsize::new(0));
        let http = poll_fn(|_| {
            let runs = runs.clone();
            executor.execute(async move {
                runs.fetch_add(1, Ordering::Relaxed);
            });
            Poll::Pending
        });
        assert!(turn(&mut streams, http).is_pending());
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        assert_eq!(allowance.load(Ordering::Relaxed), CALL_BYTES);
        assert!(turn(&mut streams, pending()).is_pending());
        assert_eq!(allowance.load(Ordering::Relaxed), BULK_BYTES);
    }

    #[tokio::test]
    async fn response_is_sent_before_the_connection_reads() {
        let (mut streams, executor, allowance) = Streams::new(Connection::of_test(false));
        let end = tokio_util::sync::CancellationToken::new();
        executor.execute(end.clone().cancelled_owned());
        assert!(turn(&mut streams, pending()).is_pending());
        end.cancel();
        let mut allowed = Vec::new();
        let http = poll_fn(|_| {
            allowed.push(allowance.load(Ordering::Relaxed));
            Poll::<()>::Pending
        });
        assert!(turn(&mut streams, http).is_pending());
        assert_eq!(allowed, [NOT_YET, CALL_BYTES]);
    }

    #[tokio::test]
    async fn client_that_sends_4_mib_beside_its_requests_is_cut_off() {
        let bulk = i64::try_from(BULK_BYTES).expect("a number");
        let connection = Connection::of_test(false);
        let (mut streams, executor, allowance) = Streams::new(connection.clone());
        let read_all = |streams: &mut Streams| {
            allowance.store(0, Ordering::Relaxed);
            assert!(turn(streams, pending()).is_pending());
        };
        executor.execute(pending());
        read_all(&mut streams);
        for _ in 0..2 * CONTROL_BYTES / bulk {
            connection.count_request_bytes(BULK_BYTES);
            read_all(&mut streams);
        }
        for _ in 0..CONTROL_BYTES / bulk {
            read_all(&mut streams);
        }
        connection.count_answer();
        for _ in 0..CONTROL_BYTES_OF_CALL / bulk {
            read_all(&mut streams);
        }
        assert!(!connection.is_ending());
        read_all(&mut streams);
        assert!(connection.is_ending());
        assert_eq!(allowance.load(Ordering::Relaxed), NOT_YET);
    }

    #[tokio::test]
    async fn panic_ends_its_stream_alone() {
        let (mut streams, executor, _) = Streams::new(Connection::of_test(false));
        let runs = Arc::new(AtomicUsize::new(0));
        executor.execute(async { panic!("a bug") });
        let counted = runs.clone();
        executor.execute(async move {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        assert!(turn(&mut streams, pending()).is_pending());
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        assert!(streams.running.is_empty());
    }

    #[tokio::test]
    async fn greeting_ends_with_its_last_byte() {
        let (mut streams, _executor, allowance) = Streams::new(Connection::of_test(false));
        allowance.fetch_sub(32, Ordering::Relaxed);
        assert!(turn(&mut streams, pending()).is_pending());
        assert!(!streams.has_greeting());
        allowance.fetch_sub(1, Ordering::Relaxed);
        assert!(turn(&mut streams, pending()).is_pending());
        assert!(streams.has_greeting());
    }

    #[tokio::test]
    async fn streams_end_with_their_connection() {
        let (mut streams, executor, _) = Streams::new(Connection::of_test(false));
        let held = Arc::new(());
        for _ in 0..2 {
            let held = held.clone();
            executor.execute(async move {
                pending::<()>().await;
                drop(held);
            });
            assert!(turn(&mut streams, pending()).is_pending());
        }
        let late = held.clone();
        executor.execute(async move { drop(late) });
        drop(streams);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
