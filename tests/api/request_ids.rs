//! Request ids: a claim that is retried with the same id returns the same leases.

use std::time::Duration;

use lease_broker_proto::{ClaimBatchRequest, Lease};

use crate::support::client::{Client, duration, lease_ids, payload};
use crate::support::database::WriteLock;
use crate::support::server::Server;
use crate::support::timeout::{wait_until, with_timeout};

const REQUEST_ID: &str = "0d3adb33-f000-4000-8000-000000000001";

/// Builds a claim with a request id.
fn with_id(client: &Client, max_items: i32, id: &str) -> ClaimBatchRequest {
    ClaimBatchRequest {
        request_id: id.to_owned(),
        ..client.claim_request(max_items)
    }
}

/// Starts a server with five items.
async fn start_with_five() -> (Server, Client) {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a", "b", "c", "d", "e"]).await;
    (server, client)
}

async fn claim(client: &Client, request: &ClaimBatchRequest) -> Vec<Lease> {
    with_timeout(client.try_claim(request.clone()))
        .await
        .expect("a claim")
}

#[tokio::test]
async fn same_id_returns_the_same_leases() {
    let (_server, client) = start_with_five().await;
    let request = with_id(&client, 2, REQUEST_ID);
    let first = claim(&client, &request).await;
    for _ in 0..3 {
        let again = claim(&client, &request).await;
        assert_eq!(lease_ids(&again), lease_ids(&first));
        assert_eq!((again[0].attempt, again[0].fencing_token), (1, 1));
        assert_eq!(again[0].item, first[0].item);
        assert_eq!(again[0].trace_parent, first[0].trace_parent);
    }
    assert_eq!(client.claim(10).await.len(), 3);
}

#[tokio::test]
async fn other_worker_or_id_gets_other_leases() {
    let (_server, client) = start_with_five().await;
    claim(&client, &with_id(&client, 1, REQUEST_ID)).await;
    let other = client.as_worker("other");
    let seen = claim(&other, &with_id(&other, 1, REQUEST_ID)).await;
    assert_eq!(payload(&seen[0]), "b");
    let next = with_id(&client, 1, "0d3adb33-f000-4000-8000-000000000002");
    assert_eq!(payload(&claim(&client, &next).await[0]), "c");
}

#[tokio::test]
async fn id_is_case_insensitive() {
    let (_server, client) = start_with_five().await;
    let first = claim(&client, &with_id(&client, 1, REQUEST_ID)).await;
    let upper_case = with_id(&client, 1, &REQUEST_ID.to_uppercase());
    assert_eq!(
        lease_ids(&claim(&client, &upper_case).await),
        lease_ids(&first)
    );
}

#[tokio::test]
async fn retry_returns_only_held_leases() {
    let (_server, client) = start_with_five().await;
    let request = with_id(&client, 2, REQUEST_ID);
    let first = claim(&client, &request).await;
    client.complete(&[&first[0].lease_id]).await;
    assert_eq!(
        lease_ids(&claim(&client, &request).await),
        [&first[1].lease_id]
    );
    client.complete(&[&first[1].lease_id]).await;
    let next = claim(&client, &request).await;
    let seen: Vec<_> = next.iter().map(payload).collect();
    assert_eq!(seen, ["c", "d"]);
}

#[tokio::test]
async fn released_item_gets_a_new_lease_id() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let request = with_id(&client, 1, REQUEST_ID);
    let first = claim(&client, &request).await;
    client.release(&lease_ids(&first)).await;
    let second = claim(&client, &request).await;
    assert_ne!(lease_ids(&first), lease_ids(&second));
    let lost = client.complete(&lease_ids(&first)).await;
    assert_eq!(lost[0].outcome(), lease_broker_proto::Outcome::LeaseLost);
    let done = client.complete(&lease_ids(&second)).await;
    assert_eq!(done[0].outcome(), lease_broker_proto::Outcome::Applied);
}

#[tokio::test]
async fn expired_leases_are_not_returned_again() {
    let (_server, client) = start_with_five().await;
    let mut request = with_id(&client, 1, REQUEST_ID);
    request.lease_duration = Some(duration(Duration::from_secs(1)));
    let first = claim(&client, &request).await;
    wait_until("the lease has expired", async || {
        let again = claim(&client, &with_id(&client, 1, REQUEST_ID)).await;
        lease_ids(&again) != lease_ids(&first)
    })
    .await;
}

#[tokio::test]
async fn waiting_retry_is_served_first() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let mut request = with_id(&client, 1, REQUEST_ID);
    request.wait_timeout = Some(duration(Duration::from_secs(60)));
    let first = claim(&client, &request).await;
    let other = client.as_worker("other");
    let waiting = tokio::spawn({
        let request = other.waiting_claim_request(1, Duration::from_secs(60));
        async move { other.try_claim(request).await }
    });
    let again = claim(&client, &request).await;
    assert_eq!(lease_ids(&again), lease_ids(&first));
    client.release(&lease_ids(&again)).await;
    let leases = with_timeout(waiting)
        .await
        .expect("a task")
        .expect("a claim");
    assert_eq!(payload(&leases[0]), "a");
}

#[tokio::test]
async fn concurrent_retries_lease_once() {
    let (_server, client) = start_with_five().await;
    let request = with_id(&client, 2, REQUEST_ID);
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let (client, request) = (client.clone(), request.clone());
            tokio::spawn(async move { claim(&client, &request).await })
        })
        .collect();
    let mut all = Vec::new();
    for call in calls {
        all.push(call.await.expect("a task"));
    }
    for leases in &all {
        assert_eq!(lease_ids(leases), lease_ids(&all[0]));
    }
    assert_eq!(client.claim(10).await.len(), 3);
}

/// A cancelled claim releases its leases. If a retry has already returned these leases to the worker, they must stay
/// held.
#[tokio::test]
async fn retry_keeps_leases_of_the_cancelled_call() {
    for round in 0..10_u64 {
        let server = Server::start().await;
        let client = server.client().await;
        client.enqueue(&["a", "b"]).await;
        let request = with_id(&client, 2, REQUEST_ID);
        let lock = WriteLock::acquire(&server.file());
        let first = tokio::spawn({
            let (client, request) = (client.clone(), request.clone());
            async move { client.try_claim(request).await }
        });
        client.wait_until_received().await;
        first.abort();
        let _ = first.await;
        // Each round yields once more, so the retry arrives before the lock is released or at the same moment.
        let again = tokio::spawn({
            let (client, request) = (client.clone(), request.clone());
            async move { client.try_claim(request).await }
        });
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        drop(lock);
        let leases = with_timeout(again).await.expect("a task").expect("a claim");
        assert_eq!(leases.len(), 2, "round {round}");
        // If the leases had been released, another worker could claim the items.
        let other = client.as_worker("other");
        let theirs = other
            .try_claim(other.waiting_claim_request(2, Duration::from_millis(100)))
            .await;
        assert_eq!(theirs.expect("a claim"), [], "round {round}");
        let heartbeats = client
            .try_heartbeat(&lease_ids(&leases), None)
            .await
            .expect("no error");
        assert!(
            heartbeats
                .iter()
                .all(|heartbeat| heartbeat.time_left.is_some()),
            "round {round}"
        );
    }
}
