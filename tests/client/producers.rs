//! Producers: items in calls of bounded size, and rows that were added by SQL.

use std::time::Duration;

use lease_broker_client::{Context, Done, EventName, Item, NewItem};

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
