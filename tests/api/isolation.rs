//! A caller's mistake, and a strange row of another program, fail nothing else.

use std::time::Duration;

use lease_broker_proto::{Outcome, Refusal, RefusalReason};
use tonic::Code;

use crate::support::api_error::assert_field_error;
use crate::support::client::{completion, item, item_with, key, lease_ids, number, text};
use crate::support::database::query_value;
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::with_timeout;

const SHORT_OWNER: &str = "
[queues.adopted]
mirror.leased = { Owner = '$worker' }
";
const SHORT_OWNER_TABLE: &str =
    "CREATE TABLE adopted (id INTEGER PRIMARY KEY, Owner text CHECK (length(Owner) <= 10))";

#[tokio::test]
async fn refused_worker_id_fails_its_claim_alone() {
    let server = Server::with_tables(SHORT_OWNER, SHORT_OWNER_TABLE).await;
    let client = server.client().await;
    let long = client.as_worker("a-worker-with-21-char");
    let wait = Duration::from_secs(20);
    let waiting: Vec<_> = (0..30)
        .map(|index| {
            let client = if index % 10 == 5 {
                long.clone()
            } else {
                client.clone()
            };
            let request = client.waiting_claim_request(1, wait);
            tokio::spawn(async move { (index, client.try_claim(request).await) })
        })
        .collect();
    client.wait_until_received().await;
    let items = (1..=27).map(|id| item_with("id", number(id)));
    client.try_enqueue(items.collect()).await.expect("enqueued");
    for claim in waiting {
        let (index, result) = with_timeout(claim).await.expect("a task");
        if index % 10 == 5 {
            assert_field_error(result, Code::InvalidArgument, "INVALID_FIELD", "worker_id");
        } else {
            assert_eq!(result.expect("a good claim").len(), 1);
        }
    }
}

#[tokio::test]
async fn row_that_refuses_claims_is_no_mistake_of_a_worker_that_only_completions_show() {
    let queue = "[queues.adopted]\nmirror.leased = { Phase = 'busy' }\nmirror.completed = { Phase = '$worker' }";
    let table = "CREATE TABLE adopted (id INTEGER PRIMARY KEY, Phase text CHECK (Phase <> 'busy'))";
    let server = Server::with_tables(queue, table).await;
    let client = server.client().await;
    let items = vec![item_with("id", number(1))];
    client.try_enqueue(items).await.expect("enqueued");
    let refused = client.try_claim(client.claim_request(1)).await;
    let refused = refused.expect_err("the row refuses");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
}

#[tokio::test]
async fn claim_that_rows_refuse_waits_for_others() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["bad"]).await;
    let choosy = "CREATE TRIGGER choosy BEFORE UPDATE ON work WHEN new.lease_state = 1 AND new.payload = 'bad' BEGIN
        SELECT RAISE(ABORT, 'bad stays');
    END";
    server.database().execute_batch(choosy).expect("a trigger");
    let refused = client.try_claim(client.claim_request(1)).await;
    let refused = refused.expect_err("the row refuses");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    assert!(refused.message().contains("item 1"), "{refused:?}");
    let request = client.waiting_claim_request(1, Duration::from_secs(20));
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.try_claim(request).await });
    client.wait_until_received().await;
    assert_eq!(client.enqueue(&["good"]).await, ["2"]);
    let leases = with_timeout(waiting).await.expect("a task");
    assert_eq!(leases.expect("a lease").len(), 1);
}

#[tokio::test]
async fn largest_integer_is_no_key_of_a_counting_table() {
    let server = Server::start().await;
    let client = server.client().await;
    for largest in [
        number(i64::MAX),
        number((1 << 53) + 1),
        text("9223372036854775807"),
    ] {
        let mut new = item("a");
        new.columns.insert("id".to_owned(), largest);
        let refused = client.try_enqueue(vec![new]).await;
        assert_field_error(
            refused,
            Code::InvalidArgument,
            "INVALID_FIELD",
            "items[0].columns[\"id\"]",
        );
    }
    assert_eq!(client.enqueue(&["b"]).await, ["1"]);
}

#[tokio::test]
async fn used_up_key_is_not_taken_for_a_full_disk() {
    let server = Server::with_config(&format!(
        "{QUEUE}\n[queues.other]\nmanaged_columns = {{ payload = 'text' }}"
    ))
    .await;
    let client = server.client().await.for_queue("work");
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let last = format!(
        "UPDATE sqlite_sequence SET seq = {} WHERE name = 'work'",
        i64::MAX
    );
    server
        .database()
        .execute_batch(&last)
        .expect("another program can do this");
    // The failed insert rolls the transaction back that the other calls share.
    let other = client.for_queue("other");
    for _ in 0..20 {
        let ids = [lease.lease_id.as_str()];
        let (refused, added, extended) = tokio::join!(
            client.try_enqueue(vec![item("b")]),
            other.try_enqueue(vec![item("c")]),
            client.try_heartbeat(&ids, None),
        );
        assert_field_error(refused, Code::InvalidArgument, "INVALID_FIELD", "items[0]");
        assert_eq!(added.expect("another table").len(), 1);
        extended.expect("the lease is extended");
    }
}

#[tokio::test]
async fn row_with_a_full_counter_becomes_dead() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["1", "2", "3", "4", "5"]).await;
    let sql = format!(
        "UPDATE work SET lease_fence = {} WHERE id = 1; UPDATE work SET lease_attempt = {} WHERE id = 2; \
         UPDATE work SET lease_fence = 'text' WHERE id = 4",
        i64::MAX,
        i32::MAX
    );
    server
        .database()
        .execute_batch(&sql)
        .expect("another program can do this");
    assert_eq!(key(&client.claim_one().await), "3");
    let leases = client.claim(5).await;
    assert_eq!(leases.iter().map(key).collect::<Vec<_>>(), ["5"]);
    client.complete(&lease_ids(&leases)).await;
    let dead = "SELECT group_concat(id) FROM work WHERE lease_state = 4 AND lease_error LIKE '%counter is full%'";
    assert_eq!(query_value::<String>(&server.database(), dead), "1,2,4");
}

#[tokio::test]
async fn item_that_no_claim_could_return_is_refused() {
    let config = format!("limits.max_item_bytes = 65536\n{QUEUE}");
    let server = Server::with_config(&config).await;
    let client = server.client().await;
    client.enqueue(&[&"x".repeat(65_000)]).await;
    let lease = client.claim_one().await;
    client.complete(&[&lease.lease_id]).await;
    let refused = client.try_enqueue(vec![item(&"x".repeat(65_536))]).await;
    assert_field_error(
        refused,
        Code::InvalidArgument,
        "INVALID_FIELD",
        "items[0].columns[\"payload\"]",
    );
}

/// A claim could never return it, because its lease is larger than a response may be.
#[tokio::test]
async fn item_over_the_message_limit_is_refused() {
    const LIMIT: usize = 100_000;
    let config = format!("server.max_message_bytes = {LIMIT}\n{QUEUE}");
    let server = Server::with_config(&config).await;
    let client = server.client().await;
    // The request itself is within the limit.
    let payload = "x".repeat(LIMIT - 200);
    let refused = client.try_enqueue(vec![item(&payload)]).await;
    let text = refused.clone().expect_err("too large");
    assert!(
        text.message().contains("server.max_message_bytes"),
        "{text:?}"
    );
    let field = "items[0].columns[\"payload\"]";
    assert_field_error(refused, Code::InvalidArgument, "INVALID_FIELD", field);
    client.enqueue(&[&payload[500..]]).await;
    let lease = client.claim_one().await;
    let completions = [
        completion(&lease.lease_id, &[("work", &payload[100..])]),
        completion(&lease.lease_id, &[("work", &payload[500..])]),
    ];
    let mut outcomes = Vec::new();
    for completion in completions {
        let results = client
            .try_complete(vec![completion])
            .await
            .expect("answered");
        let refusal = results[0].refusal.as_ref();
        outcomes.push((results[0].outcome(), refusal.map(Refusal::reason)));
    }
    let unfit = (Outcome::Refused, Some(RefusalReason::ValueUnfit));
    assert_eq!(outcomes, [unfit, (Outcome::Applied, None)]);
    assert_eq!(client.claim(9).await.len(), 1);
}

#[tokio::test]
async fn refused_items_leave_the_other_calls_alone() {
    let server = Server::start().await;
    let client = server.client().await;
    let calls = (0..200).map(|index| {
        let client = client.clone();
        let column = if index % 2 == 0 { "payload" } else { "unknown" };
        let new = item_with(column, text("a"));
        tokio::spawn(async move { client.try_enqueue(vec![new]).await })
    });
    let calls: Vec<_> = calls.collect();
    for (index, call) in calls.into_iter().enumerate() {
        let result = call.await.expect("a task");
        assert_eq!(result.is_ok(), index % 2 == 0, "{result:?}");
    }
    let count = "SELECT count(*) FROM work";
    assert_eq!(query_value::<i64>(&server.database(), count), 100);
}
