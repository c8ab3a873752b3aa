//! Producers: items in calls of bounded size, and rows that were added by SQL.

use std::time::Duration;

use lease_broker_client::{Applied, Context, Done, EventName, Item, NewItem, Value};

use crate::client::fixture::Fixture;

#[tokio::test]
async fn many_items_are_added_by_several_calls() {
    let fixture = Fixture::start().await;
    let keys = fixture.enqueue(&vec!["x"; 2_500]).await;
    assert_eq!(keys.len(), 2_500);
    let large = "x".repeat(2 << 20);
    let keys = fixture.enqueue(&[&large, &large, &large]).await;
    assert_eq!(keys, ["2501", "2502", "2503"]);
}

#[tokio::test]
async fn refused_item_names_its_column() {
    let fixture = Fixture::start().await;
    let items = [NewItem::new().column("nothing", 1)];
    let error = fixture
        .client
        .enqueue("work", items)
        .await
        .expect_err("refused");
    assert_eq!(error.error.reason, "INVALID_FIELD");
    assert!(error.error.fields[0].contains("nothing"), "{error:?}");
    assert!(error.keys.is_empty());
}

#[tokio::test]
async fn value_that_no_broker_takes_adds_no_item() {
    let fixture = Fixture::start().await;
    let past = Value::Timestamp {
        seconds: -63_000_000_000,
        nanos: 0,
    };
    for (value, problem) in [
        (Value::Decimal("abc".to_owned()), "decimal digits"),
        (Value::Double(f64::NAN), "is not a number"),
        (past, "outside the years"),
    ] {
        let mut items = vec![NewItem::new().column("payload", "x"); 1_100];
        items.push(NewItem::new().column("payload", value));
        let error = fixture.client.enqueue("work", items).await;
        let error = error.expect_err("refused");
        assert!(error.keys.is_empty(), "{error:?}");
        assert_eq!(error.error.fields, [r#"items[1100].columns["payload"]"#]);
        assert!(error.error.message.contains(problem), "{error:?}");
        assert_eq!(error.error.applied, Applied::No);
    }
    assert_eq!(fixture.rows(), []);
}

#[tokio::test]
async fn wake_lets_a_waiting_worker_find_rows() {
    let fixture = Fixture::start().await;
    let (worker, mut events) = fixture.worker();
    let worker = worker
        .start(async |_: Item, _: Context| Ok(Done::new()))
        .expect("it starts");
    let database = fixture.server.database();
    database
        .execute("INSERT INTO work (payload) VALUES ('x')", [])
        .expect("a row");
    fixture
        .client
        .wake("work")
        .await
        .expect("the call succeeds");
    events.wait_for(EventName::Completed).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
}
