//! Overload: calls that start work are refused if the database serves them more slowly than they arrive.

use lease_broker_proto::NewItem;
use tonic::Code;

use crate::support::api_error::assert_api_error;
use crate::support::client::{completion, item_with, number};
use crate::support::database::query_value;
use crate::support::server::Server;
use crate::support::timeout::with_timeout;

/// The number of items of a call, which is the maximum of one store operation. So each call needs its own.
const ITEMS: i64 = 1_000;
const CALLS: i64 = 40;
/// Each operation computes for about 100 ms.
const SLOW_TABLE: &str = "
CREATE TABLE adopted (id INTEGER PRIMARY KEY, number integer);
CREATE VIEW slow AS
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 700000)
SELECT count(*) AS count FROM numbers;
CREATE TRIGGER slow_insert AFTER INSERT ON adopted WHEN NEW.id % 1000 = 0 BEGIN
    SELECT count FROM slow;
END";

fn item(id: i64) -> NewItem {
    item_with("id", number(id))
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_for_many_operations_are_refused() {
    let server = Server::with_tables("[queues.adopted]", SLOW_TABLE).await;
    let client = server.client().await.for_queue("adopted");
    client.try_enqueue(vec![item(1)]).await.expect("added");
    let lease = client.claim_one().await;
    let calls: Vec<_> = (1..=CALLS)
        .map(|call| {
            let items = (call * ITEMS + 1..=(call + 1) * ITEMS).map(item).collect();
            let client = client.clone();
            tokio::spawn(async move { client.try_enqueue(items).await })
        })
        .collect();
    let mut accepted = 0;
    for call in calls {
        let added = with_timeout(call).await.expect("a task");
        if added.is_ok() {
            accepted += 1;
        } else {
            assert_api_error(added, Code::ResourceExhausted, "OVERLOADED", true);
        }
        let held = client.try_heartbeat(&[&lease.lease_id], None).await;
        assert!(held.expect("never refused")[0].time_left.is_some());
    }
    let all = 16..CALLS;
    assert!(all.contains(&accepted), "{accepted} calls were accepted");
    let done = client.try_complete(vec![completion(&lease.lease_id, &[])]);
    assert_eq!(done.await.expect("never refused").len(), 1);
    let rows = query_value::<i64>(&server.database(), "SELECT count(*) FROM adopted");
    assert_eq!(rows, 1 + accepted * ITEMS);
    // The queue of calls is empty, so that the next one is served.
    let late = item((CALLS + 2) * ITEMS + 1);
    client.try_enqueue(vec![late]).await.expect("added");
}
