//! Queues with groups and limits over gRPC: why a claim gets nothing, and the events that end its wait.

use std::time::Duration;

use lease_broker_proto::{ClaimBatchResponse, HeldBack};
use tokio::time::Instant;

use crate::api::waiting_claims::{NO_POLLS, WAIT};
use crate::support::client::{Client, lease_ids, payload};
use crate::support::server::Server;
use crate::support::timeout::with_timeout;

/// A queue whose items have their payload as group.
const GROUPED: &str =
    "[queues.work]\nmanaged_columns = { payload = 'text NOT NULL' }\ngroup = 'payload'\n";

async fn server(settings: &str) -> (Server, Client) {
    let server = Server::with_config(&format!("{NO_POLLS}{GROUPED}{settings}")).await;
    let client = server.client().await;
    (server, client)
}

async fn claim(client: &Client, max_items: i32) -> ClaimBatchResponse {
    let request = client.claim_request(max_items);
    let claimed = client.rpc.clone().claim_batch(request).await;
    claimed.expect("a claim").into_inner()
}

#[tokio::test]
async fn completion_ends_the_wait_for_a_busy_group() {
    let (_server, client) = server("").await;
    client.enqueue(&["a", "a", "b"]).await;
    let first = claim(&client, 9).await;
    assert_eq!(first.leases.len(), 2);
    let busy = claim(&client, 9).await;
    assert_eq!(busy.held_back(), HeldBack::GroupsBusy);
    assert_eq!(busy.retry_after, None);
    let waiting = tokio::spawn({
        let (client, request) = (client.clone(), client.waiting_claim_request(9, WAIT));
        async move { client.try_claim(request).await }
    });
    client.wait_until_received().await;
    client.complete(&lease_ids(&first.leases)[..1]).await;
    let leases = with_timeout(waiting).await.expect("a task");
    let leases = leases.expect("a claim");
    assert_eq!(leases.iter().map(payload).collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn completion_ends_the_wait_for_the_place_of_a_lease() {
    let (_server, client) = server("max_leases = 1\n").await;
    client.enqueue(&["a", "b"]).await;
    let first = claim(&client, 9).await;
    assert_eq!(first.leases.len(), 1);
    assert_eq!(claim(&client, 9).await.held_back(), HeldBack::MaxLeases);
    let waiting = tokio::spawn({
        let (client, request) = (client.clone(), client.waiting_claim_request(9, WAIT));
        async move { client.try_claim(request).await }
    });
    client.wait_until_received().await;
    client.complete(&lease_ids(&first.leases)).await;
    let leases = with_timeout(waiting).await.expect("a task");
    assert_eq!(leases.expect("a claim").len(), 1);
}

#[tokio::test]
async fn waiting_claim_gets_the_next_token_of_a_rate() {
    const PER: Duration = Duration::from_millis(700);
    let (_server, client) = server("rate = { items = 1, per = '700ms' }\n").await;
    client.enqueue(&["a", "b"]).await;
    let start = Instant::now();
    assert_eq!(claim(&client, 9).await.leases.len(), 1);
    let empty = claim(&client, 9).await;
    assert_eq!(empty.held_back(), HeldBack::Rate);
    let wait = empty.retry_after.expect("the time of the next token");
    assert!(wait.seconds == 0 && wait.nanos > 0, "{wait:?}");
    // The queue is polled once per minute, so the token ends the wait.
    let waiting = client.try_claim(client.waiting_claim_request(9, WAIT));
    let leases = with_timeout(waiting).await.expect("a claim");
    assert_eq!(leases.len(), 1);
    assert!(start.elapsed() + Duration::from_millis(2) >= PER);
}
