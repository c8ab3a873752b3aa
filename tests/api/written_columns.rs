//! Completion.columns and Failure.columns: values that a worker writes into the row of its item.

use std::collections::BTreeMap;

use lease_broker_proto::column_value::Kind;
use lease_broker_proto::{ColumnValue, ItemState, Outcome};

use crate::support::client::{completion, failure, text};
use crate::support::database;
use crate::support::server::Server;

const QUEUE: &str = "[queues.work]
managed_columns = { payload = 'text', total = 'integer', result = 'text' }
writable = ['total', 'result']";

fn columns(columns: &[(&str, ColumnValue)]) -> BTreeMap<String, ColumnValue> {
    let columns = columns.iter().cloned();
    columns
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[tokio::test]
async fn settlements_write_into_their_rows() {
    let server = Server::with_config(QUEUE).await;
    let client = server.client().await;
    client.enqueue(&["a", "b"]).await;
    let leases = client.claim(2).await;
    let total = ColumnValue {
        kind: Some(Kind::Int64Value(7)),
    };
    let mut done = completion(&leases[0].lease_id, &[]);
    done.columns = columns(&[("total", total), ("result", text("good"))]);
    for _ in 0..2 {
        let results = client.try_complete(vec![done.clone()]).await;
        assert_eq!(results.expect("no error")[0].outcome(), Outcome::Applied);
        done.columns = columns(&[("result", text("repeated"))]);
    }
    let mut failed = failure(&leases[1].lease_id, "no");
    failed.columns = columns(&[("result", text("bad"))]);
    let results = client.try_fail(vec![failed]).await.expect("no error");
    assert_eq!(results[0].state(), ItemState::Delayed);
    let rows =
        "SELECT group_concat(payload || ' ' || coalesce(total, '-') || ' ' || result) FROM work";
    let rows: String = database::query_value(&server.database(), rows);
    assert_eq!(rows, "a 7 good,b - bad");
}

#[tokio::test]
async fn refused_column_is_named() {
    let server = Server::with_config(QUEUE).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let id = client.claim_one().await.lease_id;
    let late = ColumnValue {
        kind: Some(Kind::TimestampValue(prost_types::Timestamp {
            seconds: 0,
            nanos: -1,
        })),
    };
    for (name, value) in [
        ("payload", text("x")),
        ("lease_state", text("x")),
        ("total", text("many")),
        ("result", late),
    ] {
        let mut done = completion(&id, &[]);
        done.columns = columns(&[(name, value.clone())]);
        let mut failed = failure(&id, "no");
        failed.columns = done.columns.clone();
        let completed = client.try_complete(vec![done]).await.expect("no error");
        let failed = client.try_fail(vec![failed]).await.expect("no error");
        for result in [&completed[0], &failed[0]] {
            assert_eq!(result.outcome(), Outcome::Refused);
            let refusal = result.refusal.as_ref().expect("a refusal");
            assert_eq!(refusal.field, format!("columns[{name:?}]"), "{refusal:?}");
        }
    }
    let done = client.complete(&[&id]).await;
    assert_eq!(done[0].outcome(), Outcome::Applied);
}
