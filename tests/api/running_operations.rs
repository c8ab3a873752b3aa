//! Operations that run beside each other, and the work that does not wait for them.

use lease_broker_proto::start_operation_request::Action;
use lease_broker_proto::{CancelHeld, DrainBrokerRequest, OperationState, StartOperationRequest};

use super::operators::{add_dead, begin, end_of, operation, read_operation, redrive, start};
use crate::support::client::Client;
use crate::support::timeout::{wait_until, with_timeout};

/// Two queues. Items of `work` become dead at their first failure.
const QUEUES: &str = "
[queues.work]
managed_columns = { payload = \"text\" }
max_attempts = 1

[queues.other]
managed_columns = { payload = \"text\" }
";

/// Starts a redrive of the queue `work` that takes minutes, and waits for its first batch. Returns its id.
async fn start_slow_redrive(client: &Client) -> String {
    add_dead(&client.for_queue("work"), 100).await;
    let slow = StartOperationRequest {
        max_per_second: 1,
        ..redrive()
    };
    let started = begin(client, slow).await.expect("started");
    let id = started.operation.expect("one").operation_id;
    wait_until("the redrive has begun", async || {
        read_operation(client, &id).await.changed > 0
    })
    .await;
    id
}

#[tokio::test]
async fn operation_does_not_wait_for_one_of_another_queue() {
    let (_server, client) = start(QUEUES).await;
    let slow = start_slow_redrive(&client).await;
    let other = client.for_queue("other");
    other.enqueue(&["a"]).await;
    other.claim_one().await;

    let cancel = StartOperationRequest {
        queue: "other".to_owned(),
        ..operation(Action::CancelLeases(CancelHeld::default()))
    };
    let started = begin(&client, cancel).await.expect("started");
    let ended = end_of(&client, &started.operation.expect("one").operation_id).await;

    assert_eq!(ended.changed, 1);
    let slow = read_operation(&client, &slow).await;
    assert_eq!(slow.state(), OperationState::Running);
}

#[tokio::test]
async fn operation_waits_for_an_older_one_of_its_queue() {
    let (_server, client) = start(QUEUES).await;
    let slow = start_slow_redrive(&client).await;

    let cancel = operation(Action::CancelLeases(CancelHeld::default()));
    let started = begin(&client, cancel).await.expect("started");
    let id = started.operation.expect("one").operation_id;
    let changed = read_operation(&client, &slow).await.changed;
    wait_until("the redrive has gone on", async || {
        read_operation(&client, &slow).await.changed > changed + 2
    })
    .await;

    let waiting = read_operation(&client, &id).await;
    assert_eq!(
        (waiting.state(), waiting.examined),
        (OperationState::Running, 0)
    );
}

#[tokio::test]
async fn broker_drains_while_an_operation_runs() {
    let (server, client) = start(QUEUES).await;
    let slow = start_slow_redrive(&client).await;
    let running = read_operation(&client, &slow).await;

    let request = DrainBrokerRequest {
        broker_id: running.broker_id,
        ..DrainBrokerRequest::default()
    };
    client
        .admin
        .clone()
        .drain_broker(request)
        .await
        .expect("told");
    with_timeout(server.broker().told_to_drain()).await;

    let slow = read_operation(&client, &slow).await;
    assert_eq!(slow.state(), OperationState::Running);
}
