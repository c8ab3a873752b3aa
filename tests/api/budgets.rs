//! Budgets of running calls: a kind of call that has used up its budget is refused, and the others go on.

use std::time::Duration;

use lease_broker_proto::{CompleteRequest, NextClaim, Outcome};
use tokio::task::JoinHandle;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use crate::api::rejected_calls::call_all_rpcs;
use crate::support::api_error::assert_api_error;
use crate::support::client::{Client, completion, item};
use crate::support::database::WriteLock;
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::{wait_until, with_timeout};

/// Starts a server on which one call of each kind can run.
async fn start_narrow() -> Server {
    let budgets = "[budgets]\nsettlements = 1\nworking_calls = 1\nwaiting_claims = 1\n";
    Server::with_config(&format!("{budgets}{QUEUE}")).await
}

/// Starts a claim that waits for an item, and returns once it has its place among the waiting claims.
///
/// Until the claim has found no item, it holds the place of a working call. Another claim that comes then would take the
/// only place among the waiting claims, and the first one would be refused.
async fn start_waiting(client: &Client) -> JoinHandle<Result<usize, Status>> {
    let waiting = wait_for_item(client);
    client.wait_until_received().await;
    wait_until("the claim waits", async || {
        client.try_enqueue(Vec::new()).await.is_ok()
    })
    .await;
    waiting
}

/// Starts a claim that waits for an item.
fn wait_for_item(client: &Client) -> JoinHandle<Result<usize, Status>> {
    let request = client.waiting_claim_request(1, Duration::from_secs(60));
    let client = client.clone();
    tokio::spawn(async move { client.try_claim(request).await.map(|leases| leases.len()) })
}

fn assert_overloaded<T: std::fmt::Debug>(outcome: Result<T, Status>) {
    assert_api_error(outcome, Code::ResourceExhausted, "OVERLOADED", true);
}

#[tokio::test]
async fn running_calls_of_each_kind_are_limited() {
    let server = start_narrow().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let lock = WriteLock::acquire(&server.file());
    let adding = tokio::spawn({
        let client = client.clone();
        async move { client.try_enqueue(vec![item("b")]).await }
    });
    let completing = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .try_complete(vec![completion(&lease.lease_id, &[])])
                .await
        }
    });
    client.wait_until_received().await;
    // The budgets count the calls of all connections.
    for client in [client.clone(), server.client().await] {
        for outcome in call_all_rpcs(&client).await {
            assert_overloaded(outcome);
        }
    }
    let mut health = HealthClient::new(server.channel().await);
    let check = with_timeout(health.check(HealthCheckRequest::default())).await;
    assert_eq!(check.expect("an answer").into_inner().status, 1);
    drop(lock);
    with_timeout(adding).await.expect("a task").expect("added");
    let completed = with_timeout(completing).await.expect("a task");
    assert_eq!(completed.expect("completed").len(), 1);
    for outcome in call_all_rpcs(&client).await {
        outcome.expect("calls succeed again");
    }
}

#[tokio::test]
async fn waiting_claims_leave_other_calls_their_places() {
    let config = format!("[budgets]\nsettlements = 1\nworking_calls = 1\n{QUEUE}");
    let server = Server::with_config(&config).await;
    let client = server.client().await;
    let mut waiting = Vec::new();
    for _ in 0..25 {
        // One after the other: each needs the only place of a working call until it waits.
        waiting.push(start_waiting(&client).await);
    }
    for outcome in call_all_rpcs(&client.as_worker("other")).await {
        outcome.expect("not refused");
    }
    for claim in waiting {
        claim.abort();
    }
}

#[tokio::test]
async fn claim_without_place_waits_instead() {
    let server = start_narrow().await;
    let client = server.client().await;
    let lock = WriteLock::acquire(&server.file());
    let adding = tokio::spawn({
        let client = client.clone();
        async move { client.try_enqueue(vec![item("a")]).await }
    });
    client.wait_until_received().await;
    assert_overloaded(client.try_claim(client.claim_request(1)).await);
    let waiting = wait_for_item(&client);
    client.wait_until_received().await;
    drop(lock);
    with_timeout(adding).await.expect("a task").expect("added");
    let leases = with_timeout(waiting).await.expect("a task");
    assert_eq!(leases.expect("a lease"), 1);
}

#[tokio::test]
async fn cancelled_claim_returns_its_place() {
    let server = start_narrow().await;
    let client = server.client().await;
    for _ in 0..5 {
        let waiting = start_waiting(&client).await;
        let second = client.waiting_claim_request(1, Duration::from_secs(60));
        assert_overloaded(client.try_claim(second).await);
        waiting.abort();
        let _ = waiting.await;
        let short = client.waiting_claim_request(1, Duration::from_millis(1));
        wait_until("the server accepts another call", async || {
            client.try_claim(short.clone()).await.is_ok()
        })
        .await;
    }
}

#[tokio::test]
async fn settlement_is_applied_without_place_for_next() {
    let server = start_narrow().await;
    let client = server.client().await;
    client.enqueue(&["a", "b"]).await;
    let leases = client.claim(1).await;
    let lock = WriteLock::acquire(&server.file());
    let adding = tokio::spawn({
        let client = client.clone();
        async move { client.try_enqueue(vec![item("c")]).await }
    });
    client.wait_until_received().await;
    let completing = tokio::spawn({
        let request = CompleteRequest {
            queue: client.queue.clone(),
            completions: vec![completion(&leases[0].lease_id, &[])],
            next: Some(NextClaim {
                worker_id: client.worker.clone(),
                max_items: 1,
                ..NextClaim::default()
            }),
        };
        let mut rpc = client.rpc.clone();
        async move { rpc.complete(request).await }
    });
    client.wait_until_received().await;
    drop(lock);
    with_timeout(adding).await.expect("a task").expect("added");
    let completed = with_timeout(completing).await.expect("a task");
    let completed = completed.expect("completed").into_inner();
    assert_eq!(completed.results[0].outcome(), Outcome::Applied);
    assert_eq!(completed.next, None);
    let error = completed.next_error.expect("the claim was refused");
    assert_eq!((error.code, &*error.reason), (8, "OVERLOADED"));
    assert_eq!(error.metadata["applied"], "no");
    assert!(error.metadata.contains_key("budget") && error.retry_delay.is_some());
}

#[tokio::test]
async fn refused_calls_come_back_later_and_later() {
    let server = start_narrow().await;
    let client = server.client().await;
    let waiting = start_waiting(&client).await;
    // A claim with a short wait can end before the broker looks for its place. This one would wait as long as the first.
    let refused = client.waiting_claim_request(1, Duration::from_secs(60));
    let mut longest = Duration::ZERO;
    wait_until("the delay is over half a second", async || {
        let status = client.try_claim(refused.clone()).await;
        assert!(!waiting.is_finished(), "the first claim lost its place");
        let status = status.expect_err("no place among the waiting claims");
        let delay = status
            .get_details_retry_info()
            .and_then(|info| info.retry_delay);
        let delay = delay.expect("a delay");
        assert!(delay <= Duration::from_secs(5), "{delay:?}");
        let pushback = status.metadata().get("grpc-retry-pushback-ms");
        let pushback = pushback.expect("a trailer").to_str().expect("a number");
        assert_eq!(pushback, delay.as_millis().to_string());
        longest = longest.max(delay);
        longest > Duration::from_millis(500)
    })
    .await;
}
