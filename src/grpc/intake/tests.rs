//! A call that panics.

use lease_broker_store::sqlite::{SqliteStore, system_clock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::broker::{Broker, BrokerConfig};
use crate::config::Sources;

const BUG: &str = "/bug";

/// Builds a whole request.
fn request(path: &str) -> Request<Full<Bytes>> {
    let request = Request::post(path);
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
    let serve = async |_, request: Request<Full<Bytes>>| {
        assert_ne!(request.uri().path(), BUG, "a bug");
        Response::new(Body::empty())
    };
    let call = |path| {
        limits.answer(
            connection.clone(),
            Some(Rpc::Heartbeat),
            request(path),
            serve,
        )
    };
    let (before, bug) = (call("/a"), call(BUG));
    let answers = [bug.await, before.await, call("/b").await];
    let codes = answers.map(|answer| {
        let status = Status::from_header_map(answer.headers());
        status.map_or(tonic::Code::Ok, |status| status.code())
    });
    assert_eq!(
        codes,
        [tonic::Code::Internal, tonic::Code::Ok, tonic::Code::Ok]
    );
    assert!(limits.calls.is_empty() && !connection.is_ending());
}
