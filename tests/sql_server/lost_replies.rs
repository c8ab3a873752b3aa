//! Operations that the server committed, but whose reply was lost because the connection broke.

use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::mssql::{MssqlStore, Settings};
use lease_broker_store::{EnqueuedOnce, FollowUp, QueueIndex};
use uuid::Uuid;

use crate::harness::Harness as _;
use crate::harness::errors::unavailable;
use crate::harness::fixture::{Broker, call, complete_with, keys, new_item, queue, text};
use crate::harness::mssql::{MssqlHarness, read_catalog};
use crate::harness::program::{Program, patient_settings, start};
use crate::harness::proxy::{Direction, Proxy};
use crate::support::timeout::{wait_until, with_timeout};

const TABLES: &str = "CREATE TABLE item (id int PRIMARY KEY, payload nvarchar(50));
    CREATE TABLE next (id int IDENTITY(1, 1) PRIMARY KEY, payload nvarchar(50));
    INSERT item (id) VALUES (1), (2), (3)";

/// A broker behind a proxy, and another program that reads the tables directly.
struct TestBroker {
    broker: Broker,
    proxy: Proxy,
    program: Program,
    _harness: MssqlHarness,
}

impl TestBroker {
    async fn start() -> Option<Self> {
        let (harness, program) = start().await?;
        program.run(TABLES).await;
        let queues: Vec<QueueSpec> = ["item", "next"].map(queue).into();
        for queue in &queues {
            harness.apply(queue).await.expect("apply");
        }
        let proxy = Proxy::before(&program.connection_string).await;
        let settings = Settings {
            // Half of it is left until the broker sends an operation again.
            command_timeout: Duration::from_secs(40),
            ..patient_settings(proxy.connection_string())
        };
        let store = read_catalog(MssqlStore::open(&settings, &queues))
            .await
            .expect("open");
        Some(Self {
            broker: Broker::new(Arc::new(store)),
            proxy,
            program,
            _harness: harness,
        })
    }

    /// Starts an operation, holds back its reply, and waits until the server has committed it. The caller then cuts the
    /// connection, which loses the reply.
    async fn hold_back_reply<T: Send + 'static>(
        &self,
        operation: impl Future<Output = T> + Send + 'static,
        committed: &str,
    ) -> tokio::task::JoinHandle<T> {
        self.proxy.stall(Direction::ToClient, true);
        let operation = tokio::spawn(operation);
        wait_until("the server has committed", async || {
            self.program.number(committed).await == 1
        })
        .await;
        assert!(!operation.is_finished());
        operation
    }

    async fn wait_for_request(&self) {
        wait_until("the proxy holds the request", async || {
            self.proxy.held() > 0
        })
        .await;
    }
}

const LEASED: &str = "SELECT COUNT(*) FROM item WHERE id = 1 AND lease_state = 1";
const ALL_LEASED: &str = "SELECT COUNT(*) FROM item WHERE lease_state = 1";
const ADDED: &str = "SELECT COUNT(*) FROM next";

#[tokio::test]
async fn completion_with_a_lost_reply_adds_its_follow_up_once() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    let item = test.broker.one().await;
    let follow_up = FollowUp {
        queue: QueueIndex(1),
        item: new_item(&[("payload", text("after 1"))]),
    };
    let broker = test.broker.clone();
    let lease = item.lease.clone();
    let completion = async move { broker.settle(&lease, complete_with(vec![follow_up])).await };
    let committed = "SELECT COUNT(*) FROM item WHERE lease_state = 3";
    let completion = test.hold_back_reply(completion, committed).await;
    let connections = test.proxy.accepted();
    test.proxy.cut_and_restore();
    let state = with_timeout(completion).await.expect("no panic");
    assert_eq!(state, Some(State::Completed));
    assert_eq!(
        test.proxy.accepted(),
        connections + 1,
        "the broker reconnected once"
    );
    let followed = test.program.texts("SELECT payload FROM next").await;
    assert_eq!(followed, ["after 1"]);
}

#[tokio::test]
async fn claim_with_request_id_and_lost_reply_finds_its_leases() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    let (broker, token) = (test.broker.clone(), Uuid::new_v4());
    let claim = async move { broker.request(token, 2).await };
    let claim = test.hold_back_reply(claim, LEASED).await;
    test.proxy.cut_and_restore();
    let items = with_timeout(claim).await.expect("no panic");
    assert_eq!(keys(&items), ["1", "2"]);
    assert_eq!(test.broker.request(token, 2).await.len(), 2);
    let claims = "SELECT SUM(lease_fence) FROM item";
    assert_eq!(test.program.number(claims).await, 2);
}

#[tokio::test]
async fn failed_claim_with_request_id_gets_its_leases_on_retry() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    let (broker, token) = (test.broker.clone(), Uuid::new_v4());
    let mut request = call("worker", 2);
    request.token = token;
    request.has_request_id = true;
    let claim = async move {
        broker
            .store
            .claim(broker.queue, [request].into(), usize::MAX)
            .await
    };
    let claim = test.hold_back_reply(claim, LEASED).await;
    test.proxy.refuse(true);
    test.proxy.cut();
    let claimed = with_timeout(claim).await.expect("no panic");
    unavailable(claimed);
    test.proxy.restore();
    let items = test.broker.request(token, 2).await;
    assert_eq!(keys(&items), ["1", "2"]);
    for item in &items {
        assert_eq!((item.lease.token, item.lease.fence), (token, 1));
        let completed = test.broker.complete(&item.lease).await;
        assert_eq!(completed, Some(State::Completed));
    }
}

#[tokio::test]
async fn claim_without_request_id_finds_leases_of_lost_reply() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    let broker = test.broker.clone();
    let claim = async move { broker.claim(1).await };
    let claim = test.hold_back_reply(claim, LEASED).await;
    test.proxy.cut_and_restore();
    let items = with_timeout(claim).await.expect("no panic");
    assert_eq!(keys(&items), ["1"]);
    assert_eq!(items[0].lease.fence, 1);
    assert_eq!(test.program.number(ALL_LEASED).await, 1);
    let completed = test.broker.complete(&items[0].lease).await;
    assert_eq!(completed, Some(State::Completed));
}

#[tokio::test]
async fn claim_lost_before_the_server_is_not_run_again() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    // The session and its prepared batch exist before the connection is lost.
    assert_eq!(keys(&test.broker.claim(1).await), ["1"]);
    test.proxy.stall(Direction::ToServer, true);
    let broker = test.broker.clone();
    let calls = [call("worker", 1)];
    let claim = tokio::spawn(async move {
        broker
            .store
            .claim(broker.queue, calls.into(), usize::MAX)
            .await
    });
    test.wait_for_request().await;
    test.proxy.cut_and_restore();
    let claimed = with_timeout(claim).await.expect("no panic");
    unavailable(claimed);
    assert_eq!(test.program.number(ALL_LEASED).await, 1);
}

#[tokio::test]
async fn enqueue_with_a_lost_reply_runs_once_and_reports_doubt() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    let broker = test.broker.at(1);
    let items = vec![new_item(&[("payload", text("a"))])];
    let adding = async move { broker.try_enqueue(items).await };
    let adding = test.hold_back_reply(adding, ADDED).await;
    test.proxy.cut_and_restore();
    let added = with_timeout(adding).await.expect("no panic");
    unavailable(added);
    assert_eq!(test.program.number(ADDED).await, 1);
}

#[tokio::test]
async fn enqueue_with_a_request_id_survives_a_lost_reply() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    let broker = test.broker.at(1);
    let items = vec![new_item(&[("payload", text("a"))])];
    let adding = async move { broker.enqueue_once(Uuid::from_u128(1), items).await };
    let adding = test.hold_back_reply(adding, ADDED).await;
    test.proxy.cut_and_restore();
    let added = with_timeout(adding).await.expect("no panic");
    assert!(
        matches!(&added, Ok(EnqueuedOnce::Repeated(keys)) if keys[0].to_string() == "1"),
        "{added:?}"
    );
    assert_eq!(test.program.number(ADDED).await, 1);
}

#[tokio::test]
async fn heartbeat_with_a_lost_reply_is_retried() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    let item = test.broker.one().await;
    let lease = item.lease.clone();
    let broker = test.broker.clone();
    let day = Duration::from_secs(86_400);
    let beat = async move { broker.heartbeat(&lease, day).await };
    let extended =
        "SELECT COUNT(*) FROM item WHERE lease_due_time > DATEADD(hour, 20, SYSUTCDATETIME())";
    let beat = test.hold_back_reply(beat, extended).await;
    test.proxy.cut_and_restore();
    let held = with_timeout(beat).await.expect("no panic");
    assert!(held.expect("held").time_left <= day);
}

/// The request is lost on its way to the server, so it changes nothing. The broker sends it again.
#[tokio::test]
async fn request_lost_before_the_server_is_retried() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    let item = test.broker.one().await;
    test.proxy.stall(Direction::ToServer, true);
    let broker = test.broker.clone();
    let lease = item.lease.clone();
    let completion = tokio::spawn(async move { broker.complete(&lease).await });
    test.wait_for_request().await;
    test.proxy.cut_and_restore();
    let state = with_timeout(completion).await.expect("no panic");
    assert_eq!(state, Some(State::Completed));
}
