//! An error says whether its call was applied.

use std::time::Duration;

use crate::support::applied::{Callers, Told};
use crate::support::client::{Client, duration};
use crate::support::database::WriteLock;
use crate::support::server::Server;
use crate::support::timeout::{wait_until, with_timeout};

/// The number of refused calls after which a fault ends.
const REFUSED: usize = 3_000;

/// Starts a server with 200 leases on items of its queue.
async fn start() -> (Server, Client, Vec<lease_broker_proto::Lease>) {
    let server = Server::start().await;
    let client = server.client().await;
    let payloads: Vec<String> = (0..200).map(|number| format!("held {number}")).collect();
    let payloads: Vec<&str> = payloads.iter().map(|payload| &**payload).collect();
    client.enqueue(&payloads).await;
    let mut claim = client.claim_request(200);
    claim.lease_duration = Some(duration(Duration::from_secs(3_600)));
    let leases = client.try_claim(claim).await.expect("claimed");
    assert_eq!(leases.len(), 200);
    (server, client, leases)
}

fn texts(server: &Server, sql: &str) -> Vec<String> {
    let database = server.database();
    let mut statement = database.prepare(sql).expect("a statement");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("texts")
}

fn assert_true(server: &Server, (enqueued, completed): &(Told, Told)) {
    let added = "SELECT payload FROM work WHERE payload NOT LIKE 'held %' AND payload <> 'last'";
    enqueued.assert_true("enqueued", &texts(server, added));
    let done = "SELECT CAST(id AS text) FROM work WHERE lease_state = 3";
    completed.assert_true("completed", &texts(server, done));
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_calls_are_not_applied_after_a_file_was_locked() {
    let (server, client, leases) = start().await;
    let lock = WriteLock::acquire(&server.file());
    let callers = Callers::start(&client, leases);
    wait_until("thousands of calls are refused", async || {
        callers.refused() > REFUSED
    })
    .await;
    drop(lock);
    // The store is healthy again when an item can be added. Every operation before it has ended then.
    wait_until("an item can be added", async || {
        client
            .try_enqueue(vec![crate::support::client::item("last")])
            .await
            .is_ok()
    })
    .await;
    let told = callers.stop().await;
    assert!(
        told.0.not_applied.len() > REFUSED / 2,
        "{}",
        told.0.not_applied.len()
    );
    assert!(!told.0.applied.is_empty());
    assert!(
        !told.1.not_applied.is_empty(),
        "the completions that waited for the lock"
    );
    assert_true(&server, &told);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_calls_are_not_applied_while_a_broker_stops() {
    let (mut server, client, leases) = start().await;
    let callers = Callers::start(&client, leases);
    wait_until("items are added", async || {
        let added: i64 =
            crate::support::database::query_value(&server.database(), "SELECT count(*) FROM work");
        added > 300
    })
    .await;
    let lock = WriteLock::acquire(&server.file());
    let stopped = tokio::spawn(server.drain());
    let refused = callers.refused();
    wait_until("calls are refused while the broker stops", async || {
        callers.refused() > refused
    })
    .await;
    drop(lock);
    with_timeout(stopped).await.expect("no panic");
    let told = callers.stop().await;
    assert_true(&server, &told);
}
