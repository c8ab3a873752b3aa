//! Failures of the store: locked database, missing table, missing column, missing index.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::api_error::assert_api_error;
use crate::support::client::{Client, completion, failure, item};
use crate::support::database::{WriteLock, all_rows};
use crate::support::server::Server;
use crate::support::timeout::with_timeout;

/// Makes the six calls at the same time. Returns the number of results or the error of each.
async fn call_all_rpcs(client: &Client, id: &str) -> [Result<usize, Status>; 6] {
    let ids = [id];
    let (claim, enqueue, heartbeat, complete, fail, release) = tokio::join!(
        client.try_claim(client.claim_request(1)),
        client.try_enqueue(vec![item("x")]),
        client.try_heartbeat(&ids, None),
        client.try_complete(vec![completion(id, &[])]),
        client.try_fail(vec![failure(id, "")]),
        client.try_release(&ids, None),
    );
    [
        claim.map(|leases| leases.len()),
        enqueue.map(|keys| keys.len()),
        heartbeat.map(|results| results.len()),
        complete.map(|results| results.len()),
        fail.map(|results| results.len()),
        release.map(|results| results.len()),
    ]
}

async fn is_serving(health: &mut HealthClient<tonic::transport::Channel>) -> bool {
    let check = health.check(HealthCheckRequest::default());
    with_timeout(check)
        .await
        .expect("an answer")
        .into_inner()
        .status
        == 1
}

#[tokio::test]
async fn locked_store_is_unavailable() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a", "b"]).await;
    let lease = client.claim_one().await;
    let before = all_rows(&server.database(), "work");
    let mut health = HealthClient::new(server.channel().await);
    assert!(is_serving(&mut health).await);
    let changes = health.watch(HealthCheckRequest::default()).await;
    let mut changes = changes.expect("the stream opens").into_inner();
    let mut change = async || {
        changes
            .message()
            .await
            .expect("the stream is intact")
            .expect("the stream continues")
            .status
    };
    assert_eq!(with_timeout(change()).await, 1);

    let lock = WriteLock::acquire(&server.file());
    let waiting = tokio::spawn({
        let client = client.clone();
        let request = client.waiting_claim_request(1, Duration::from_secs(60));
        async move { client.try_claim(request).await }
    });
    let done = vec![completion(&lease.lease_id, &[])];
    let completed = with_timeout(client.try_complete(done)).await;
    assert_api_error(completed, Code::Unavailable, "STORE_UNAVAILABLE", true);
    let waiting = with_timeout(waiting).await.expect("a task");
    assert_api_error(waiting, Code::Unavailable, "STORE_UNAVAILABLE", true);
    assert_eq!(with_timeout(change()).await, 2);
    assert!(!is_serving(&mut health).await);
    assert_eq!(all_rows(&server.database(), "work"), before);

    drop(lock);
    assert_eq!(with_timeout(change()).await, 1);
    assert!(is_serving(&mut health).await);
    assert_eq!(client.complete(&[&lease.lease_id]).await.len(), 1);
    assert_eq!(client.claim(1).await.len(), 1);
    let next_change = tokio::time::timeout(Duration::from_secs(1), change()).await;
    assert_eq!(
        next_change.ok(),
        None,
        "health changed again after the recovery"
    );
}

#[tokio::test]
async fn store_outage_ends_all_waiting_claims() {
    let server = Server::start().await;
    let client = server.client().await;
    // Each claim asks for as many items as one statement serves. If the broker tried them one after another, each
    // claim would wait one lock timeout longer than the claim before it.
    let waiting = (0..20).map(|_| {
        let client = client.clone();
        let request = client.waiting_claim_request(1_000, Duration::from_secs(60));
        tokio::spawn(async move { client.try_claim(request).await })
    });
    let waiting: Vec<_> = waiting.collect();
    let _lock = WriteLock::acquire(&server.file());
    for claim in with_timeout(futures_util::future::join_all(waiting)).await {
        let claim = claim.expect("a task");
        assert_api_error(claim, Code::Unavailable, "STORE_UNAVAILABLE", true);
    }
}

#[tokio::test]
async fn short_lock_only_delays_a_call() {
    let server = Server::start().await;
    let client = server.client().await;
    let lock = WriteLock::acquire(&server.file());
    let adding = tokio::spawn({
        let client = client.clone();
        async move { client.try_enqueue(vec![item("x")]).await }
    });
    client.wait_until_received().await;
    assert!(!adding.is_finished());
    drop(lock);
    with_timeout(adding).await.expect("a task").expect("added");
}

/// Damages the schema and asserts that claims fail as `STORE_MISCONFIGURED`, then repairs it and asserts that all calls
/// succeed without a restart.
async fn assert_misconfigured_after(damage: &str, repair: &str) {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a", "b"]).await;
    let id = client.claim_one().await.lease_id;
    let database = server.database();
    database
        .execute_batch(damage)
        .expect("the schema is damaged");
    let claim = client.try_claim(client.claim_request(1)).await;
    let text = claim.as_ref().expect_err("refused").message().to_owned();
    assert!(text.contains("the broker's log has the cause"), "{text}");
    for internal in ["lease_", "SELECT", "UPDATE", "INDEX", "no such"] {
        assert!(!text.contains(internal), "{text}");
    }
    assert_api_error(
        claim,
        Code::FailedPrecondition,
        "STORE_MISCONFIGURED",
        false,
    );
    let wait = client.waiting_claim_request(1, Duration::from_secs(60));
    let claim = with_timeout(client.try_claim(wait)).await;
    assert_api_error(
        claim,
        Code::FailedPrecondition,
        "STORE_MISCONFIGURED",
        false,
    );
    // Without a column only some calls fail. Without the table all calls fail.
    if damage.contains("RENAME TO") {
        for outcome in call_all_rpcs(&client, &id).await {
            assert_api_error(
                outcome,
                Code::FailedPrecondition,
                "STORE_MISCONFIGURED",
                false,
            );
        }
    }
    database
        .execute_batch(repair)
        .expect("the schema is repaired");
    for outcome in call_all_rpcs(&client, &id).await {
        outcome.expect("calls succeed without a restart");
    }
}

#[tokio::test]
async fn missing_table_is_misconfigured() {
    assert_misconfigured_after(
        "ALTER TABLE work RENAME TO elsewhere",
        "ALTER TABLE elsewhere RENAME TO work",
    )
    .await;
}

#[tokio::test]
async fn missing_column_is_misconfigured() {
    assert_misconfigured_after(
        "ALTER TABLE work RENAME COLUMN lease_fence TO fence",
        "ALTER TABLE work RENAME COLUMN fence TO lease_fence",
    )
    .await;
}

#[tokio::test]
async fn missing_index_is_misconfigured() {
    let server = Server::start().await;
    let database = server.database();
    let definition = "SELECT sql FROM sqlite_master WHERE type = 'index' AND name LIKE '%ready%'";
    let sql: String = crate::support::database::query_value(&database, definition);
    let name = "SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE '%ready%'";
    let name: String = crate::support::database::query_value(&database, name);
    assert_misconfigured_after(&format!("DROP INDEX \"{name}\""), &sql).await;
}
