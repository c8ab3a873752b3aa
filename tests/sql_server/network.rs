//! Every operation over a slow network. All connections are cut before most of the operations.

use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_store::mssql::MssqlStore;
use lease_broker_store::{FollowUp, QueueIndex};
use uuid::Uuid;

use crate::harness::Harness as _;
use crate::harness::fixture::{
    Broker, HOUR, complete_with, fail, keys, new_item, queue, release, text,
};
use crate::harness::mssql::read_catalog;
use crate::harness::program::{patient_settings, start};
use crate::harness::proxy::Proxy;

#[tokio::test]
async fn operations_survive_a_slow_breaking_network() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = |name| {
        format!("CREATE TABLE {name} (id int IDENTITY(1, 1) PRIMARY KEY, payload nvarchar(50))")
    };
    let mut queues: Vec<QueueSpec> = ["item", "next"].map(queue).into();
    queues[0].on_complete = OnComplete::Archive("done".to_owned());
    for queue in &queues {
        program.run(&table(&queue.table)).await;
        harness.apply(queue).await.expect("apply");
    }
    let proxy = Proxy::before(&program.connection_string).await;
    proxy.delay(Duration::from_millis(3));
    // Each cut makes the next operation use a new session. On a busy Babelfish server the first statements of a session
    // can take longer than the default timeout.
    let settings = patient_settings(proxy.connection_string());
    let store = read_catalog(MssqlStore::open(&settings, &queues))
        .await
        .expect("open");
    let broker = Broker::new(Arc::new(store));

    let item = |payload| new_item(&[("payload", text(payload))]);
    let items = ["a", "b", "c", "d", "e"].map(item).to_vec();
    let added = broker.try_enqueue(items).await.expect("added");
    assert_eq!(added.len(), 5);
    // The broker notices that the connection is broken and sends the operation on a new one.
    proxy.cut();
    let request = Uuid::new_v4();
    let leases = broker.request(request, 4).await;
    assert_eq!(keys(&leases), ["1", "2", "3", "4"]);
    proxy.cut();
    assert_eq!(broker.request(request, 4).await.len(), 4);
    proxy.cut();
    let held = broker.heartbeat(&leases[0].lease, HOUR).await;
    assert!(held.is_some());
    proxy.cut();
    let follow_up = FollowUp {
        queue: QueueIndex(1),
        item: item("after a"),
    };
    let done = complete_with(vec![follow_up]);
    assert_eq!(
        broker.settle(&leases[0].lease, done).await,
        Some(State::Completed)
    );
    proxy.cut();
    let failed = broker.settle(&leases[1].lease, fail(None)).await;
    assert_eq!(failed, Some(State::Dead));
    proxy.cut();
    let failed = broker.settle(&leases[2].lease, fail(Some(HOUR))).await;
    assert_eq!(failed, Some(State::Delayed));
    proxy.cut();
    let released = broker
        .settle(&leases[3].lease, release(Duration::ZERO))
        .await;
    assert_eq!(released, Some(State::Ready));
    proxy.cut();
    assert_eq!(broker.counts().await, [2, 0, 1, 0, 1]);
    proxy.cut();
    assert_eq!(broker.list(State::Dead).await[0].key.to_string(), "2");
    let last =
        "UPDATE item SET lease_due_time = DATEADD(hour, -2, lease_due_time) WHERE lease_state = 2";
    program.run(last).await;
    proxy.cut();
    assert_eq!(broker.reap(9).await.promoted, 1);
    proxy.cut();
    assert_eq!(broker.redrive(9).await, 1);
    assert_eq!(broker.counts().await, [4, 0, 0, 0, 0]);
    assert_eq!(broker.at(1).counts().await, [1, 0, 0, 0, 0]);
    assert_eq!(program.texts("SELECT payload FROM done").await, ["a"]);
    assert!(proxy.accepted() > 10, "{} connections", proxy.accepted());
}
