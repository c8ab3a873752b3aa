//! Long polls: what ends a wait, and in which order those who wait are served.

use std::time::Duration;

use lease_broker::grpc::proto::Lease;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Status;

use crate::support::client::{Client, duration, failure, lease_ids, payload};
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::with_timeout;

type Parked = JoinHandle<Result<Vec<Lease>, Status>>;

/// A poll of the store would not come for a long time: what ends a wait must be a signal.
const NO_POLLS: &str = "[polling]\nmin = '50s'\nmax = '60s'\n";

async fn unpolled() -> (Server, Client) {
    let server = Server::with_config(&format!("{NO_POLLS}{QUEUE}")).await;
    let client = server.client().await;
    (server, client)
}

/// Starts a claim that waits, and returns once it does: calls on one connection are taken in order, so it waits when
/// those sent after it have been answered.
async fn park(client: &Client, max_items: i32) -> Parked {
    let request = client.waiting_claim_request(max_items, Duration::from_secs(60));
    let claiming = client.clone();
    let parked = tokio::spawn(async move { claiming.try_claim(request).await });
    tokio::task::yield_now().await;
    for _ in 0..3 {
        assert_eq!(client.claim(1).await, []);
    }
    assert!(!parked.is_finished());
    parked
}

async fn got(parked: Parked) -> Vec<String> {
    let leases = with_timeout(parked)
        .await
        .expect("a task")
        .expect("a claim");
    leases
        .iter()
        .map(|lease| payload(lease).to_owned())
        .collect()
}

#[tokio::test]
async fn enqueued_item_ends_a_wait() {
    let (_server, client) = unpolled().await;
    let parked = park(&client, 5).await;
    client.enqueue(&["a"]).await;
    assert_eq!(got(parked).await, ["a"]);
}

#[tokio::test]
async fn follow_up_ends_a_wait_on_its_queue() {
    let queues = "[queues.next]\nmanaged = { payload = 'text' }\n";
    let server = Server::with_config(&format!("{NO_POLLS}{QUEUE}{queues}")).await;
    let client = server.client().await.for_queue("work");
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let parked = park(&client.for_queue("next"), 1).await;
    let done = crate::support::client::completion(&lease.lease_id, &[("next", "b")]);
    client.try_complete(vec![done]).await.expect("done");
    assert_eq!(got(parked).await, ["b"]);
}

#[tokio::test]
async fn released_item_ends_a_wait() {
    let (_server, client) = unpolled().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let parked = park(&client, 1).await;
    client.release(&[&lease.lease_id]).await;
    assert_eq!(got(parked).await, ["a"]);
}

#[tokio::test]
async fn delayed_item_ends_a_wait_when_it_is_due() {
    let (_server, client) = unpolled().await;
    client.enqueue(&["a"]).await;
    let short = Duration::from_millis(100);
    for fails in [true, false] {
        let lease = client.claim_one().await;
        let parked = park(&client, 1).await;
        let start = Instant::now();
        if fails {
            let mut failed = failure(&lease.lease_id, "no");
            failed.retry_delay = Some(duration(short));
            client.try_fail(vec![failed]).await.expect("failed");
        } else {
            let released = client.try_release(&[&lease.lease_id], Some(short)).await;
            released.expect("released");
        }
        let leases = with_timeout(parked)
            .await
            .expect("a task")
            .expect("a claim");
        assert!(start.elapsed() >= short, "{:?}", start.elapsed());
        client.release(&lease_ids(&leases)).await;
    }
}

#[tokio::test]
async fn expired_lease_ends_a_wait() {
    let (_server, client) = unpolled().await;
    client.enqueue(&["a"]).await;
    let mut request = client.claim_request(1);
    request.lease_duration = Some(duration(Duration::from_secs(1)));
    client.try_claim(request).await.expect("a claim");
    let parked = park(&client, 1).await;
    assert_eq!(got(parked).await, ["a"]);
}

#[tokio::test]
async fn row_of_another_program_ends_a_wait() {
    let server = Server::start().await;
    let client = server.client().await;
    let parked = park(&client, 5).await;
    let insert = "INSERT INTO work (payload) VALUES ('theirs')";
    server.database().execute(insert, []).expect("a row");
    let start = Instant::now();
    assert_eq!(got(parked).await, ["theirs"]);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn wait_without_items_ends_empty_on_time() {
    let (_server, client) = unpolled().await;
    for wait in [0, 1, 250] {
        let wait = Duration::from_millis(wait);
        let start = Instant::now();
        let leases = with_timeout(client.try_claim(client.waiting_claim_request(1, wait))).await;
        assert_eq!(leases.expect("a claim"), []);
        assert!(start.elapsed() >= wait);
        assert!(start.elapsed() < wait + Duration::from_secs(5));
    }
}

#[tokio::test]
async fn claims_are_served_in_arrival_order() {
    let (_server, client) = unpolled().await;
    let mut parked = Vec::new();
    for _ in 0..5 {
        parked.push(park(&client, 1).await);
    }
    for (n, parked) in parked.into_iter().enumerate() {
        client.enqueue(&[&n.to_string()]).await;
        assert_eq!(got(parked).await, [n.to_string()]);
    }
}

#[tokio::test]
async fn batch_is_split_in_arrival_order() {
    let (_server, client) = unpolled().await;
    let parked = [
        park(&client, 2).await,
        park(&client, 1).await,
        park(&client, 5).await,
    ];
    client.enqueue(&["a", "b", "c", "d"]).await;
    let [first, second, third] = parked;
    assert_eq!(got(first).await, ["a", "b"]);
    assert_eq!(got(second).await, ["c"]);
    assert_eq!(got(third).await, ["d"]);
}

#[tokio::test]
async fn waiting_claims_precede_new_claims() {
    let server = Server::start().await;
    let client = server.client().await;
    let parked = park(&client, 1).await;
    let insert = "INSERT INTO work (payload) VALUES ('one')";
    server.database().execute(insert, []).expect("a row");
    let impatient = client.claim(1).await;
    assert_eq!(impatient, []);
    assert_eq!(got(parked).await, ["one"]);
}

#[tokio::test]
async fn waits_do_not_block_other_calls() {
    let (_server, client) = unpolled().await;
    let mut parked = Vec::new();
    for _ in 0..400 {
        let (client, request) = (
            client.clone(),
            client.waiting_claim_request(1, Duration::from_secs(60)),
        );
        parked.push(tokio::spawn(async move { client.try_claim(request).await }));
    }
    let payloads: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    let payloads: Vec<&str> = payloads.iter().map(|payload| &**payload).collect();
    for chunk in payloads.chunks(100) {
        with_timeout(client.enqueue(chunk)).await;
    }
    let mut seen = std::collections::HashSet::new();
    for parked in parked {
        seen.extend(got(parked).await);
    }
    assert_eq!(seen.len(), 400);
}
