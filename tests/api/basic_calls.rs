//! Each of the six calls without failures.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker_proto::column_value::Kind;
use lease_broker_proto::{ColumnValue, ItemState, NewItem, Outcome};
use tonic::Code;

use crate::support::api_error::assert_field_error;
use crate::support::client::{completion, item, key, lease_ids, payload};
use crate::support::database;
use crate::support::server::Server;

#[tokio::test]
async fn items_are_leased_in_insertion_order() {
    let server = Server::start().await;
    let client = server.client().await;
    assert_eq!(client.enqueue(&["a", "b", "c"]).await, ["1", "2", "3"]);
    let leases = client.claim(2).await;
    let seen: Vec<_> = leases
        .iter()
        .map(|lease| (key(lease), payload(lease)))
        .collect();
    assert_eq!(seen, [("1", "a"), ("2", "b")]);
    assert_eq!(payload(&client.claim_one().await), "c");
    assert_eq!(client.claim(10).await, []);
}

#[tokio::test]
async fn lease_has_expiry_and_columns() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    assert_eq!((lease.attempt, lease.fencing_token), (1, 1));
    assert!(!lease.lease_id.is_empty());
    let left = Duration::try_from(lease.time_left.expect("time left")).expect("positive");
    assert_eq!(left, Duration::from_secs(60));
    let database = server.database();
    let due: i64 = database::query_value(&database, "SELECT lease_due_time FROM work");
    let expiry = lease.expire_time.expect("an expiry");
    assert_eq!(
        due,
        expiry.seconds * 1_000 + i64::from(expiry.nanos) / 1_000_000
    );
    let item = lease.item.expect("an item");
    assert_eq!(item.columns.len(), 2, "{item:?}");
    assert_eq!(item.columns["id"].kind, Some(Kind::Int64Value(1)));
}

#[tokio::test]
async fn heartbeat_extends_the_lease() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let longer = Some(Duration::from_secs(3_600));
    let results = client.try_heartbeat(&[&lease.lease_id], longer).await;
    let result = results.expect("a heartbeat").remove(0);
    assert_eq!(result.outcome(), Outcome::Applied);
    assert_eq!(result.time_left.expect("time left").seconds, 3_600);
    let expiry = result.expire_time.expect("an expiry").seconds;
    assert!(expiry > lease.expire_time.expect("an expiry").seconds);
}

#[tokio::test]
async fn completed_item_is_not_leased_again() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let results = client.complete(&[&lease.lease_id]).await;
    assert_eq!(results[0].outcome(), Outcome::Applied);
    assert_eq!(results[0].state(), ItemState::Completed);
    assert_eq!(client.claim(10).await, []);
    let state: i64 = database::query_value(&server.database(), "SELECT lease_state FROM work");
    assert_eq!(state, 3);
}

#[tokio::test]
async fn failed_item_returns_with_the_next_attempt() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let result = client.fail(&lease.lease_id, "the printer is on fire").await;
    assert_eq!(result.outcome(), Outcome::Applied);
    let error: String = database::query_value(&server.database(), "SELECT lease_error FROM work");
    assert_eq!(error, "the printer is on fire");
    let request = client.waiting_claim_request(1, Duration::from_secs(30));
    let again = client.try_claim(request).await.expect("a claim").remove(0);
    assert_eq!((again.attempt, again.fencing_token), (2, 2));
}

#[tokio::test]
async fn released_item_returns_with_the_same_attempt() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let results = client.release(&[&lease.lease_id]).await;
    assert_eq!(results[0].outcome(), Outcome::Applied);
    assert_eq!(results[0].state(), ItemState::Ready);
    let again = client.claim_one().await;
    assert_eq!((again.attempt, again.fencing_token), (1, 2));
}

#[tokio::test]
async fn delayed_item_is_ready_after_its_delay() {
    let server = Server::start().await;
    let client = server.client().await;
    let delayed = NewItem {
        delay: Some(crate::support::client::duration(Duration::from_millis(300))),
        ..item("later")
    };
    let start = tokio::time::Instant::now();
    client.try_enqueue(vec![delayed]).await.expect("added");
    assert_eq!(client.claim(1).await, []);
    let request = client.waiting_claim_request(1, Duration::from_secs(30));
    let leases = client.try_claim(request).await.expect("a claim");
    assert_eq!(payload(&leases[0]), "later");
    // The store counts whole milliseconds.
    assert!(start.elapsed() > Duration::from_millis(298));
}

#[tokio::test]
async fn empty_lists_do_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    assert_eq!(
        client
            .try_enqueue(Vec::new())
            .await
            .expect("no error")
            .len(),
        0
    );
    assert_eq!(
        client
            .try_heartbeat(&[], None)
            .await
            .expect("no error")
            .len(),
        0
    );
    assert_eq!(client.complete(&[]).await, []);
    assert_eq!(client.try_fail(Vec::new()).await.expect("no error"), []);
    assert_eq!(client.release(&[]).await, []);
}

#[tokio::test]
async fn values_of_every_kind_are_returned() {
    let server = Server::with_config(
        "[queues.typed]
        managed_columns = { b = 'boolean', i = 'bigint', d = 'double', t = 'text', raw = 'blob', at = 'datetime', \
         price = 'decimal(9,2)' }",
    )
    .await;
    let client = server.client().await;
    let moment = prost_types::Timestamp {
        seconds: 1_700_000_000,
        nanos: 5_000_000,
    };
    let kinds = [
        ("b", Some(Kind::BoolValue(true))),
        ("i", Some(Kind::Int64Value(i64::MIN))),
        ("d", Some(Kind::DoubleValue(0.1))),
        ("t", Some(Kind::StringValue("grüße\n\0'\"".to_owned()))),
        ("raw", Some(Kind::BytesValue(vec![0, 255, 7]))),
        ("at", Some(Kind::TimestampValue(moment))),
        ("price", Some(Kind::DecimalValue("-12.50".to_owned()))),
    ];
    let all: BTreeMap<_, _> = kinds
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), ColumnValue { kind: kind.clone() }))
        .collect();
    let items = vec![
        NewItem {
            columns: all,
            ..NewItem::default()
        },
        NewItem::default(),
    ];
    client.try_enqueue(items).await.expect("added");
    let leases = client.claim(2).await;
    let column = |index: usize, name: &str| {
        let item = leases[index].item.as_ref().expect("an item");
        item.columns[name].kind.clone()
    };
    for (name, kind) in &kinds {
        assert_eq!(column(0, name), *kind, "{name}");
        assert_eq!(column(1, name), Some(Kind::NullValue(0)), "{name}");
    }
}

#[tokio::test]
async fn value_without_a_kind_is_refused_and_not_null() {
    let server =
        Server::with_config("[queues.work]\nmanaged_columns = { payload = \"text default 'x'\" }")
            .await;
    let client = server.client().await;
    let value = |kind| {
        vec![crate::support::client::item_with(
            "payload",
            ColumnValue { kind },
        )]
    };
    let refused = client.try_enqueue(value(None)).await;
    let field = "items[0].columns[\"payload\"]";
    assert_field_error(refused, Code::InvalidArgument, "INVALID_FIELD", field);
    let null = client.try_enqueue(value(Some(Kind::NullValue(0)))).await;
    null.expect("added");
    let lease = client.claim_one().await;
    let columns = &lease.item.as_ref().expect("an item").columns;
    assert_eq!(columns["payload"].kind, Some(Kind::NullValue(0)));
}

#[tokio::test]
async fn composite_key_is_a_json_array() {
    let server = Server::with_tables(
        "[queues.pairs]",
        "CREATE TABLE pairs (region text NOT NULL, number integer NOT NULL, PRIMARY KEY (region, number))",
    )
    .await;
    let client = server.client().await;
    let region = |region: &str, number| NewItem {
        columns: BTreeMap::from([
            ("region".to_owned(), crate::support::client::text(region)),
            (
                "number".to_owned(),
                ColumnValue {
                    kind: Some(Kind::Int64Value(number)),
                },
            ),
        ]),
        ..NewItem::default()
    };
    let keys = client.try_enqueue(vec![region("n\"o", 2), region("n\"o", 1)]);
    assert_eq!(
        keys.await.expect("added"),
        ["[\"n\\\"o\",2]", "[\"n\\\"o\",1]"]
    );
    let leases = client.claim(2).await;
    assert_eq!(key(&leases[0]), "[\"n\\\"o\",1]");
    let results = client.complete(&lease_ids(&leases)).await;
    assert!(results.iter().all(|r| r.outcome() == Outcome::Applied));
}

#[tokio::test]
async fn items_follow_the_configured_order() {
    let server = Server::with_config(
        "[queues.ranked]
        order = ['rank desc']
        managed_columns = { rank = 'integer', payload = 'text' }",
    )
    .await;
    let client = server.client().await;
    let database = server.database();
    let insert = "INSERT INTO ranked (rank, payload) VALUES (1, 'low'), (9, 'high'), (9, 'high too'), (5, 'middle')";
    database.execute(insert, []).expect("inserted");
    let leases = client.claim(10).await;
    let seen: Vec<_> = leases.iter().map(payload).collect();
    assert_eq!(seen, ["high", "high too", "middle", "low"]);
}

#[tokio::test]
async fn completion_deletes_archives_or_repeats() {
    let server = Server::with_config(
        "[queues.gone]
        managed_columns = { payload = 'text' }
        on_complete = 'delete'
        [queues.moved]
        managed_columns = { payload = 'text' }
        on_complete = { archive = 'moved_archive' }
        [queues.again]
        managed_columns = { payload = 'text' }
        on_complete = { recur = '200ms' }",
    )
    .await;
    let database = server.database();
    let client = server.client().await;
    for queue in ["gone", "moved", "again"] {
        let client = client.for_queue(queue);
        client.enqueue(&["x"]).await;
        let lease = client.claim_one().await;
        let done = client.try_complete(vec![completion(&lease.lease_id, &[])]);
        assert_eq!(done.await.expect("done")[0].outcome(), Outcome::Applied);
    }
    let count = |table: &str| -> i64 {
        database::query_value(&database, &format!("SELECT count(*) FROM {table}"))
    };
    assert_eq!((count("gone"), count("moved"), count("again")), (0, 0, 1));
    let archived: String = database::query_value(&database, "SELECT payload FROM moved_archive");
    assert_eq!(archived, "x");
    let again = client.for_queue("again");
    let request = again.waiting_claim_request(1, Duration::from_secs(30));
    let lease = again.try_claim(request).await.expect("a claim").remove(0);
    assert_eq!((lease.attempt, lease.fencing_token), (1, 2));
}
