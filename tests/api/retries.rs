//! Failed, expired and released items: retry delay, backoff, dead letters and the stored error message.

use std::time::Duration;

use lease_broker_proto::{ItemState, Lease, Outcome};

use crate::support::client::{Client, duration, failure, payload};
use crate::support::database;
use crate::support::server::Server;

const SLOW_RETRIES: &str = "
[queues.work]
managed_columns = { payload = 'text' }
max_attempts = 3
backoff = { initial = '10m', factor = 3.0, max = '20m', jitter = 0.0 }
";

/// Reads the delay of the only delayed item from its row.
fn delay(server: &Server) -> Duration {
    let sql = "SELECT lease_due_time - lease_state_time FROM work WHERE lease_state = 2";
    let millis: i64 = database::query_value(&server.database(), sql);
    Duration::from_millis(millis.try_into().expect("the delay is positive"))
}

/// Moves the due time of the delayed item into the past, and claims the item.
async fn claim_before_delay_ends(server: &Server, client: &Client) -> Lease {
    let database = server.database();
    database
        .execute(
            "UPDATE work SET lease_due_time = 1 WHERE lease_state = 2",
            [],
        )
        .expect("updated");
    let request = client.waiting_claim_request(1, Duration::from_secs(30));
    client.try_claim(request).await.expect("a claim").remove(0)
}

#[tokio::test]
async fn delay_grows_until_the_item_is_dead() {
    let server = Server::with_config(SLOW_RETRIES).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let mut lease = client.claim_one().await;
    for minutes in [10, 20] {
        let result = client.fail(&lease.lease_id, "no").await;
        assert_eq!(result.state(), ItemState::Delayed);
        assert_eq!(delay(&server), Duration::from_secs(minutes * 60));
        lease = claim_before_delay_ends(&server, &client).await;
    }
    assert_eq!(lease.attempt, 3);
    let result = client.fail(&lease.lease_id, "no").await;
    assert_eq!(result.state(), ItemState::Dead);
    assert_eq!(client.claim(1).await, []);
}

#[tokio::test]
async fn worker_sets_the_delay_not_max_attempts() {
    let server = Server::with_config(SLOW_RETRIES).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let mut lease = client.claim_one().await;
    for expected in [ItemState::Delayed, ItemState::Delayed, ItemState::Dead] {
        let mut failed = failure(&lease.lease_id, "no");
        failed.retry_delay = Some(duration(Duration::from_millis(90_500)));
        let results = client.try_fail(vec![failed]).await.expect("failed");
        assert_eq!(results[0].state(), expected);
        if expected == ItemState::Delayed {
            assert_eq!(delay(&server), Duration::from_millis(90_500));
            lease = claim_before_delay_ends(&server, &client).await;
        }
    }
}

#[tokio::test]
async fn worker_can_dead_letter_an_item() {
    let server = Server::with_config(SLOW_RETRIES).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let mut failed = failure(&lease.lease_id, "no such customer");
    failed.dead_letter = true;
    failed.retry_delay = Some(duration(Duration::from_secs(1)));
    let results = client.try_fail(vec![failed]).await.expect("failed");
    assert_eq!(results[0].outcome(), Outcome::Applied);
    assert_eq!(results[0].state(), ItemState::Dead);
    let error: String = database::query_value(&server.database(), "SELECT lease_error FROM work");
    assert_eq!(error, "no such customer");
}

#[tokio::test]
async fn last_expiry_makes_the_item_dead() {
    let server = Server::with_config(
        "[queues.work]
        managed_columns = { payload = 'text' }
        lease_duration = '1s'
        max_attempts = 1",
    )
    .await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    client.claim_one().await;
    let database = server.database();
    crate::support::timeout::wait_until("the item is dead", async || {
        database::query_value::<i64>(&database, "SELECT lease_state FROM work") == 4
    })
    .await;
    let error: String = database::query_value(&database, "SELECT lease_error FROM work");
    assert!(error.contains("worker"), "{error}");
}

#[tokio::test]
async fn error_is_cut_after_1024_utf16_units() {
    let server = Server::start().await;
    let client = server.client().await;
    let database = server.database();
    // Four characters have five units.
    for (given, kept) in [(818, 818), (819, 819), (820, 819), (50_000, 819)] {
        client.enqueue(&["a"]).await;
        let lease = client.claim_one().await;
        let mut failed = failure(&lease.lease_id, &"ü€😀x".repeat(given / 4 + 1));
        failed.error_message = failed.error_message.chars().take(given).collect();
        failed.dead_letter = true;
        client.try_fail(vec![failed.clone()]).await.expect("failed");
        let sql = format!(
            "SELECT lease_error FROM work WHERE id = {}",
            lease.item.expect("the lease has an item").key
        );
        let error: String = database::query_value(&database, &sql);
        assert_eq!(error.chars().count(), kept);
        assert!(failed.error_message.starts_with(&error));
    }
}

#[tokio::test]
async fn release_does_not_count_an_attempt() {
    let server = Server::with_config(SLOW_RETRIES).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    for fence in 1..=10 {
        let lease = client.claim_one().await;
        assert_eq!((lease.attempt, lease.fencing_token), (1, fence));
        client.release(&[&lease.lease_id]).await;
    }
}

#[tokio::test]
async fn delayed_release_postpones_the_item() {
    let server = Server::with_config(SLOW_RETRIES).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let later = Some(Duration::from_secs(600));
    let results = client.try_release(&[&lease.lease_id], later).await;
    assert_eq!(results.expect("released")[0].state(), ItemState::Delayed);
    assert_eq!(delay(&server), Duration::from_secs(600));
    assert_eq!(client.claim(1).await, []);
    let again = claim_before_delay_ends(&server, &client).await;
    assert_eq!((again.attempt, payload(&again)), (1, "a"));
}
