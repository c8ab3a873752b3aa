//! Shutdown: the service rejects new claims, finishes running calls, and stops after `drain_grace` at the latest.

use std::error::Error as _;
use std::time::Duration;

use lease_broker_proto::{HeartbeatResult, Outcome, SettleResult};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::api_error::ApiError;
use crate::support::client::{completion, item, lease_ids};
use crate::support::database::{self, WriteLock};
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::{TEST_TIMEOUT, wait_until, with_timeout};

/// The time that claims wait. It is as long as the time limit of the test's own waits.
const WAIT: Duration = TEST_TIMEOUT;

#[tokio::test]
async fn all_calls_are_served_for_the_drain_delay() {
    let empty = "[queues.yet_empty]\nmanaged_columns = { payload = 'text' }";
    // The delay is longer than the test.
    let config = format!("[server]\ndrain_delay = '1h'\n{QUEUE}\n{empty}");
    let mut server = Server::with_config(&config).await;
    let client = server.client().await.for_queue("work");
    let mut health = HealthClient::new(server.channel().await);
    client.enqueue(&["a", "b"]).await;
    let held = client.claim(1).await;
    let waiting_on = client.for_queue("yet_empty");
    let waiting = tokio::spawn(async move {
        let request = waiting_on.waiting_claim_request(1, Duration::from_secs(60));
        waiting_on.try_claim(request).await
    });
    client.wait_until_received().await;

    let drained = tokio::spawn(server.drain());
    wait_until("the drain is announced", async || {
        let check = health.check(HealthCheckRequest::default()).await;
        check.expect("a status").into_inner().status == 2
    })
    .await;
    client.enqueue(&["c"]).await;
    let claimed = client.claim(2).await;
    assert_eq!(claimed.len(), 2, "claims get leases");
    let leases = [held, claimed].concat();
    let ids = lease_ids(&leases);
    let heartbeats = client.try_heartbeat(&ids, None).await.expect("a heartbeat");
    let is_held = |heartbeat: &HeartbeatResult| heartbeat.time_left.is_some();
    assert!(heartbeats.iter().all(is_held));
    let done = client.complete(&ids).await;
    let applied = |result: &SettleResult| result.outcome() == Outcome::Applied;
    assert!(done.iter().all(applied));
    assert!(!waiting.is_finished(), "the claim ended before the delay");
    assert!(!drained.is_finished(), "the server stopped");
    let completed = "SELECT count(*) FROM work WHERE lease_state = 3";
    assert_eq!(
        database::query_value::<i64>(&server.database(), completed),
        3
    );
}

#[tokio::test]
async fn waiting_claims_end_empty_and_the_next_goes_elsewhere() {
    let config = format!("[server]\ndrain_delay = '100ms'\ndrain_grace = '1h'\n{QUEUE}");
    let mut server = Server::with_config(&config).await;
    let client = server.client().await;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                client
                    .try_claim(client.waiting_claim_request(1, WAIT))
                    .await
            })
        })
        .collect();
    client.wait_until_received().await;
    let start = Instant::now();
    let drained = tokio::spawn(server.drain());
    for claim in waiting {
        let claim = with_timeout(claim).await.expect("a task");
        assert_eq!(claim.expect("an empty response"), []);
    }
    assert!(start.elapsed() < WAIT, "the claims waited to their end");
    // The connection takes no further call.
    let next = client.try_claim(client.claim_request(1)).await;
    assert_eq!(
        next.expect_err("the server stops").code(),
        Code::Unavailable
    );
    assert!(with_timeout(drained).await.expect("a task"));
    // Another broker on the same database serves the next claim.
    let other = server.another().await;
    let client = other.client().await;
    client.enqueue(&["a"]).await;
    assert_eq!(client.claim(1).await.len(), 1);
}

#[tokio::test]
async fn settlement_in_flight_is_finished() {
    let mut server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let lock = WriteLock::acquire(&server.file());
    let settling = tokio::spawn(async move {
        let done = vec![completion(&lease.lease_id, &[])];
        client.try_complete(done).await
    });
    let unknown = server.client().await.for_queue("nowhere");
    unknown
        .try_claim(unknown.claim_request(1))
        .await
        .expect_err("unknown queue");
    let address = server.address;
    let drained = tokio::spawn(server.drain());
    wait_until("the port is closed", async || {
        TcpStream::connect(address).await.is_err()
    })
    .await;
    assert!(
        !drained.is_finished(),
        "the server stopped before the call ended"
    );
    drop(lock);
    let settled = with_timeout(settling)
        .await
        .expect("a task")
        .expect("settled");
    assert_eq!(settled.len(), 1);
    assert!(with_timeout(drained).await.expect("a task"));
}

#[tokio::test]
async fn stuck_call_is_abandoned_after_grace() {
    let mut server =
        Server::with_config(&format!("[server]\ndrain_grace = '300ms'\n{QUEUE}")).await;
    let client = server.client().await;
    let _lock = WriteLock::acquire(&server.file());
    let stuck = tokio::spawn({
        let client = client.clone();
        async move { client.enqueue(&["a"]).await }
    });
    client.wait_until_received().await;
    // Without the grace, the server would wait until the store gives up the lock, and the call would end.
    assert!(!server.stop_serving().await, "no call was cut off");
    stuck.abort();
}

#[tokio::test]
async fn idle_clients_do_not_delay_shutdown() {
    // Longer than the test: a client that delays the shutdown fails it.
    let mut server = Server::with_config(&format!("[server]\ndrain_grace = '1h'\n{QUEUE}")).await;
    let _idle = server.client().await;
    let mut health = HealthClient::new(server.channel().await);
    let watching = health.watch(HealthCheckRequest::default()).await;
    let mut changes = watching.expect("a stream").into_inner();
    assert_eq!(
        changes
            .message()
            .await
            .expect("no error")
            .expect("a status")
            .status,
        1
    );
    assert!(with_timeout(server.drain()).await);
    let change = with_timeout(changes.message()).await;
    assert_eq!(change.expect("no error").expect("a status").status, 2);
}

#[tokio::test]
async fn calls_succeed_or_get_unavailable() {
    let mut server =
        Server::with_config(&format!("[server]\ndrain_delay = '100ms'\n{QUEUE}")).await;
    let client = server.client().await;
    let workers: Vec<_> = (0..16)
        .map(|n| {
            let client = client.as_worker(&format!("w{n}"));
            tokio::spawn(async move {
                let mut rounds = 0;
                loop {
                    let outcome = async {
                        client.try_enqueue(vec![item("x")]).await?;
                        let leases = client.try_claim(client.claim_request(2)).await?;
                        let done = leases.iter().map(|lease| completion(&lease.lease_id, &[]));
                        client.try_complete(done.collect()).await
                    };
                    match outcome.await {
                        Ok(_) => rounds += 1,
                        Err(status) => return (rounds, status),
                    }
                }
            })
        })
        .collect();
    let database = server.database();
    wait_until("the workers make progress", async || {
        let done = "SELECT count(*) FROM work WHERE lease_state = 3";
        database::query_value::<i64>(&database, done) > 50
    })
    .await;
    assert!(with_timeout(server.drain()).await);
    for worker in workers {
        let (rounds, status) = with_timeout(worker).await.expect("a worker");
        assert!(rounds > 0);
        // The connection was closed before the client had sent the call. Other clients than tonic's send it again unseen.
        let was_not_sent = status.code() == Code::Cancelled && status.source().is_some();
        assert!(
            was_not_sent || status.code() == Code::Unavailable,
            "{status:?}"
        );
        if tonic_types::StatusExt::get_details_error_info(&status).is_some() {
            assert_eq!(ApiError::from_status(&status).reason, "DRAINING");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_never_get_resource_exhausted() {
    for _ in 0..10 {
        let mut server = Server::start().await;
        let mut workers = Vec::new();
        for _ in 0..4 {
            let client = server.client().await;
            workers.extend((0..8).map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    loop {
                        let added = client.try_enqueue(vec![item("x")]).await;
                        if let Err(status) = added {
                            return status;
                        }
                    }
                })
            }));
        }
        let database = server.database();
        wait_until("the workers make progress", async || {
            database::query_value::<i64>(&database, "SELECT count(*) FROM work") > 100
        })
        .await;
        assert!(with_timeout(server.drain()).await);
        for worker in workers {
            let status = with_timeout(worker).await.expect("a worker");
            assert_ne!(status.code(), Code::ResourceExhausted, "{status:?}");
        }
    }
}
