//! Waiting claims (long polls): the events that end a wait, and the order in which waiting claims get items.

use std::time::Duration;

use lease_broker_proto::{ClaimBatchRequest, HeldBack, Lease};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Status;

use crate::support::client::{Client, duration, failure, lease_ids, payload};
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::with_timeout;

type WaitingClaim = JoinHandle<Result<Vec<Lease>, Status>>;

/// Settings with which the first poll of the store comes after 45 seconds at the earliest.
pub(crate) const NO_POLLS: &str = "[polling]\nmin_interval = '60s'\nmax_interval = '60s'\n";
/// The time that a claim waits. It ends before the first poll, so an item that it gets came by a wake-up.
pub(crate) const WAIT: Duration = Duration::from_secs(40);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Starts a server that does not poll during a test.
async fn start_without_polls() -> (Server, Client) {
    let server = Server::with_config(&format!("{NO_POLLS}{QUEUE}")).await;
    let client = server.client().await;
    (server, client)
}

/// Starts a waiting claim, and returns once the broker has it.
///
/// The server reads the calls of one connection in order. The answers to later claims prove that this one is waiting.
async fn start_waiting(client: &Client, max_items: i32) -> WaitingClaim {
    let request = client.waiting_claim_request(max_items, WAIT);
    let waiting_client = client.clone();
    let waiting = tokio::spawn(async move { waiting_client.try_claim(request).await });
    tokio::task::yield_now().await;
    for _ in 0..3 {
        assert_eq!(client.claim(1).await, []);
    }
    assert!(!waiting.is_finished());
    waiting
}

/// Waits for the claim to end, and returns the payloads of its items.
async fn payloads_of(claim: WaitingClaim) -> Vec<String> {
    let leases = with_timeout(claim).await.expect("a task").expect("a claim");
    leases
        .iter()
        .map(|lease| payload(lease).to_owned())
        .collect()
}

#[tokio::test]
async fn enqueued_item_ends_a_wait() {
    let (_server, client) = start_without_polls().await;
    let waiting = start_waiting(&client, 5).await;
    client.enqueue(&["a"]).await;
    assert_eq!(payloads_of(waiting).await, ["a"]);
}

#[tokio::test]
async fn follow_up_ends_a_wait_on_its_queue() {
    let queues = "[queues.next]\nmanaged_columns = { payload = 'text' }\n";
    let server = Server::with_config(&format!("{NO_POLLS}{QUEUE}{queues}")).await;
    let client = server.client().await.for_queue("work");
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let waiting = start_waiting(&client.for_queue("next"), 1).await;
    let done = crate::support::client::completion(&lease.lease_id, &[("next", "b")]);
    client.try_complete(vec![done]).await.expect("done");
    assert_eq!(payloads_of(waiting).await, ["b"]);
}

#[tokio::test]
async fn released_item_ends_a_wait() {
    let (_server, client) = start_without_polls().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let waiting = start_waiting(&client, 1).await;
    client.release(&[&lease.lease_id]).await;
    assert_eq!(payloads_of(waiting).await, ["a"]);
}

#[tokio::test]
async fn delayed_item_ends_a_wait_when_it_is_due() {
    let (_server, client) = start_without_polls().await;
    client.enqueue(&["a"]).await;
    let short = Duration::from_millis(100);
    for fails in [true, false] {
        let lease = client.claim_one().await;
        let waiting = start_waiting(&client, 1).await;
        let start = Instant::now();
        if fails {
            let mut failed = failure(&lease.lease_id, "no");
            failed.retry_delay = Some(duration(short));
            client.try_fail(vec![failed]).await.expect("failed");
        } else {
            let released = client.try_release(&[&lease.lease_id], Some(short)).await;
            released.expect("released");
        }
        let leases = with_timeout(waiting)
            .await
            .expect("a task")
            .expect("a claim");
        // The store counts whole milliseconds.
        assert!(start.elapsed() + 2 * MILLISECOND > short);
        client.release(&lease_ids(&leases)).await;
    }
}

#[tokio::test]
async fn expired_lease_ends_a_wait() {
    let (_server, client) = start_without_polls().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let waiting = start_waiting(&client, 1).await;
    let short = Some(Duration::from_secs(1));
    let held = client.try_heartbeat(&[&lease.lease_id], short).await;
    assert!(held.expect("a heartbeat")[0].time_left.is_some());
    assert_eq!(payloads_of(waiting).await, ["a"]);
}

#[tokio::test]
async fn row_of_another_program_ends_a_wait() {
    let server = Server::start().await;
    let client = server.client().await;
    let waiting = start_waiting(&client, 5).await;
    let insert = "INSERT INTO work (payload) VALUES ('theirs')";
    server.database().execute(insert, []).expect("inserted");
    assert_eq!(payloads_of(waiting).await, ["theirs"]);
}

#[tokio::test]
async fn claim_with_a_short_wait_looks_at_the_database_while_another_waits() {
    let (server, client) = start_without_polls().await;
    let waiting = start_waiting(&client, 1).await;
    let insert = "INSERT INTO work (payload) VALUES ('a'), ('b')";
    server.database().execute(insert, []).expect("inserted");
    let request = client.waiting_claim_request(1, Duration::ZERO);
    let leases = with_timeout(client.try_claim(request)).await;
    let leases = leases.expect("a claim");
    assert_eq!(leases.iter().map(payload).collect::<Vec<_>>(), ["b"]);
    assert_eq!(payloads_of(waiting).await, ["a"]);
}

#[tokio::test]
async fn item_that_is_too_large_for_a_waiting_claim_is_for_a_new_one() {
    // The first poll comes after 37 seconds at the earliest.
    let polling = "[polling]\nmin_interval = '50s'\nmax_interval = '50s'\n";
    let server = Server::with_config(&format!("{polling}{QUEUE}")).await;
    let client = server.client().await;
    client.enqueue(&[&"x".repeat(200_000)]).await;
    let request = |wait, max_bytes| ClaimBatchRequest {
        max_bytes,
        ..client.waiting_claim_request(1, wait)
    };
    let wait = Duration::from_secs(60);
    let (small, small_client) = (request(wait, 65_536), client.clone());
    let waiting = tokio::spawn(async move { small_client.try_claim(small).await });
    tokio::task::yield_now().await;
    for _ in 0..3 {
        let none = client.try_claim(request(Duration::ZERO, 65_536)).await;
        assert_eq!(none.expect("a claim"), []);
    }
    let start = Instant::now();
    let leases = client.try_claim(request(wait, 1_000_000)).await;
    assert_eq!(leases.expect("a claim").len(), 1);
    assert!(start.elapsed() < Duration::from_secs(30), "by a poll");
    waiting.abort();
}

#[tokio::test]
async fn wait_without_items_ends_empty_on_time() {
    let (_server, client) = start_without_polls().await;
    for wait in [0, 1, 250] {
        let wait = Duration::from_millis(wait);
        let start = Instant::now();
        let leases = with_timeout(client.try_claim(client.waiting_claim_request(1, wait))).await;
        assert_eq!(leases.expect("a claim"), []);
        assert!(start.elapsed() >= wait);
        assert!(start.elapsed() < WAIT, "the wait ended with a poll");
    }
}

#[tokio::test]
async fn claims_are_served_in_arrival_order() {
    let (_server, client) = start_without_polls().await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(start_waiting(&client, 1).await);
    }
    for (n, claim) in waiting.into_iter().enumerate() {
        client.enqueue(&[&n.to_string()]).await;
        assert_eq!(payloads_of(claim).await, [n.to_string()]);
    }
}

#[tokio::test]
async fn batch_is_split_in_arrival_order() {
    let (_server, client) = start_without_polls().await;
    let waiting = [
        start_waiting(&client, 2).await,
        start_waiting(&client, 1).await,
        start_waiting(&client, 5).await,
    ];
    client.enqueue(&["a", "b", "c", "d"]).await;
    let [first, second, third] = waiting;
    assert_eq!(payloads_of(first).await, ["a", "b"]);
    assert_eq!(payloads_of(second).await, ["c"]);
    assert_eq!(payloads_of(third).await, ["d"]);
}

#[tokio::test]
async fn waiting_claims_precede_new_claims() {
    let server = Server::start().await;
    let client = server.client().await;
    let waiting = start_waiting(&client, 1).await;
    let insert = "INSERT INTO work (payload) VALUES ('one')";
    server.database().execute(insert, []).expect("inserted");
    let new_claim = client.claim(1).await;
    assert_eq!(new_claim, []);
    assert_eq!(payloads_of(waiting).await, ["one"]);
}

#[tokio::test]
async fn waits_do_not_block_other_calls() {
    let (_server, client) = start_without_polls().await;
    let mut waiting = Vec::new();
    for _ in 0..400 {
        let (client, request) = (client.clone(), client.waiting_claim_request(1, WAIT));
        waiting.push(tokio::spawn(async move { client.try_claim(request).await }));
    }
    let payloads: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    let payloads: Vec<&str> = payloads.iter().map(|payload| &**payload).collect();
    for chunk in payloads.chunks(100) {
        with_timeout(client.enqueue(chunk)).await;
    }
    let mut seen = std::collections::HashSet::new();
    for claim in waiting {
        seen.extend(payloads_of(claim).await);
    }
    assert_eq!(seen.len(), 400);
}

#[tokio::test]
async fn worker_with_a_suspect_is_told_why_it_gets_nothing() {
    let settings =
        "[queues.work]\nmanaged_columns = { payload = 'text' }\nmin_lease_duration = '1s'";
    let server = Server::with_config(settings).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let crashed = ClaimBatchRequest {
        lease_duration: Some(duration(Duration::from_secs(1))),
        ..client.as_worker("crashed").claim_request(1)
    };
    client.try_claim(crashed).await.expect("a lease");
    let waiting = client.as_worker("busy").waiting_claim_request(1, WAIT);
    let suspect = with_timeout(client.try_claim(waiting)).await;
    assert_eq!(suspect.expect("a claim").len(), 1);
    client.enqueue(&["b"]).await;
    let reason = async |worker: &str| {
        let request = client.as_worker(worker).claim_request(1);
        let claimed = client.rpc.clone().claim_batch(request).await;
        claimed.expect("a claim").into_inner().held_back()
    };
    assert_eq!(reason("busy").await, HeldBack::Suspects);
    assert_eq!(reason("idle").await, HeldBack::Unspecified);
    assert_eq!(reason("third").await, HeldBack::NothingReady);
}
