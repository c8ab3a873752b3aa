//! A call that panics.

use http::{Request, Response};
use http_body_util::Full;
use lease_broker_store::sqlite::{SqliteStore, system_clock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::broker::{Broker, BrokerConfig};
use crate::config::Sources;

const BUG: &str = "/bug";

/// Answers calls, and panics at one path.
#[derive(Clone)]
struct Handlers;

impl Service<Request<Full<Bytes>>> for Handlers {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        Box::pin(async move {
            assert_ne!(request.uri().path(), BUG, "a bug");
            Ok(Response::new(Body::empty()))
        })
    }
}

/// Builds a whole request.
fn request(path: &str) -> Request<Full<Bytes>> {
    let request = Request::post(path).extension(Rpc::Heartbeat);
    let empty_message = Full::new(Bytes::from_static(&[0; 5]));
    request.body(empty_message).expect("a request")
}

#[tokio::test]
async fn panic_answers_internal_and_leaves_the_other_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Sources::default().load().expect("the default");
    let file = folder.path().join("store.db");
    let store = SqliteStore::open(&file, &config.queues, system_clock()).expect("a store");
    let broker = Broker::start(Arc::new(store), &config.queues, BrokerConfig::from(&config));
    let limits = Arc::new(IntakeLimits {
        broker: Arc::new(broker),
        guard: None,
        max_message_bytes: 100,
        request_timeout: config.server.request_timeout,
        incomplete: Incomplete::new(8),
        calls: TaskTracker::new(),
        stop: CancellationToken::new(),
    });
    let connection = Connection::of_test(false);
    let mut intake = Intake {
        inner: Handlers,
        limits: limits.clone(),
        connection: connection.clone(),
    };
    let (before, bug) = (intake.call(request("/a")), intake.call(request(BUG)));
    let answers = [bug.await, before.await, intake.call(request("/b")).await];
    let codes = answers.map(|answer| {
        let Ok(answer) = answer;
        let status = Status::from_header_map(answer.headers());
        status.map_or(tonic::Code::Ok, |status| status.code())
    });
    assert_eq!(
        codes,
        [tonic::Code::Internal, tonic::Code::Ok, tonic::Code::Ok]
    );
    assert!(limits.calls.is_empty() && !connection.is_ending());
}
