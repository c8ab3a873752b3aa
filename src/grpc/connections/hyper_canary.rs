//! What the server assumes about hyper, and hyper does not promise. A test that fails here names the assumption that a new
//! version of hyper has broken.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::repeat_with;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http2 as client;
use hyper::rt::Executor;
use hyper::server::conn::http2 as server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes streams, and notes whether the connection is being polled.
#[derive(Clone)]
struct Canary {
    is_polled: Arc<AtomicBool>,
    opened: UnboundedSender<(Stream, bool)>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Canary {
    fn execute(&self, stream: F) {
        let is_polled = self.is_polled.load(Ordering::Acquire);
        let _ = self.opened.send((Box::pin(stream), is_polled));
    }
}

async fn connect(stream: DuplexStream) -> client::SendRequest<Empty<Bytes>> {
    let mut builder = client::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(100);
    let (requests, connection) = builder
        .handshake(TokioIo::new(stream))
        .await
        .expect("connected");
    tokio::spawn(connection);
    requests
}

fn request() -> Request<Empty<Bytes>> {
    let request = Request::builder().uri("http://canary/");
    request.body(Empty::new()).expect("a request")
}

#[tokio::test]
async fn stream_starts_in_a_poll_and_its_drop_resets_the_call() {
    let (near, far) = duplex(1 << 16);
    let (opened, mut streams) = unbounded_channel();
    let is_polled = Arc::new(AtomicBool::new(false));
    let canary = Canary {
        is_polled: is_polled.clone(),
        opened,
    };
    let never = service_fn(async |_: Request<Incoming>| {
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let mut http =
        Box::pin(server::Builder::new(canary).serve_connection(TokioIo::new(far), never));
    tokio::spawn(poll_fn(move |context| {
        is_polled.store(true, Ordering::Release);
        let ended = http.as_mut().poll(context).map(drop);
        is_polled.store(false, Ordering::Release);
        ended
    }));
    let mut requests = connect(near).await;
    let answer = tokio::spawn(requests.send_request(request()));
    let (stream, started_in_poll) = streams.recv().await.expect("a stream");
    assert!(started_in_poll, "hyper executes a stream outside a poll");
    drop(stream);
    let answer = answer.await.expect("a task");
    assert!(answer.is_err(), "a dropped stream does not end its call");
    // The connection lives.
    let next = tokio::spawn(requests.send_request(request()));
    drop(streams.recv().await.expect("a second stream"));
    next.abort();
}

#[tokio::test]
async fn next_part_of_a_body_is_taken_when_the_client_has_room() {
    const PARTS: usize = 8;
    let (near, far) = duplex(1 << 20);
    let given = Arc::new(AtomicUsize::new(0));
    let counted = given.clone();
    let answers = service_fn(move |_: Request<Incoming>| {
        let counted = counted.clone();
        let parts = repeat_with(move || {
            counted.fetch_add(1, Ordering::AcqRel);
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[7; 1_000])))
        });
        let body = StreamBody::new(parts.take(PARTS));
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    let http =
        server::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(far), answers);
    tokio::spawn(http);
    let mut requests = connect(near).await;
    let unread = requests.send_request(request()).await.expect("headers");
    // The second answer comes after the server has done what it does for the first one.
    let other = requests.send_request(request()).await.expect("headers");
    let taken = given.load(Ordering::Acquire);
    assert!(
        taken <= 4,
        "hyper takes {taken} parts of two bodies that nobody reads"
    );
    drop(other);
    let read = unread.into_body().collect().await.expect("a body");
    assert_eq!(read.to_bytes().len(), PARTS * 1_000);
}
