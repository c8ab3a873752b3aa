//! Operations that a newer broker has stored in the same database.

use lease_broker_proto::start_operation_request::Action;
use lease_broker_proto::{CancelHeld, ListOperationsRequest, OperationState};

use crate::api::operators::{begin, end_of, operation, start};
use crate::support::server::QUEUE;

#[tokio::test]
async fn operation_of_a_newer_broker_waits_and_stops_no_other() {
    let (server, client) = start(QUEUE).await;
    let store = "INSERT INTO lease_broker_operation (id, queue, kind, slot, definition, actor, reason, create_time) VALUES
        (randomblob(16), 'work', 'redrive', 'redrive', '{\"change\":\"PurgeDead\",\"tenant\":\"a\"}', '', 'its filter is new', 1),
        (randomblob(16), 'work', 'teleport', 'teleport', '{\"change\":\"Teleport\"}', '', 'its kind is new', 2)";
    server.database().execute_batch(store).expect("stored");
    let known = operation(Action::CancelLeases(CancelHeld::default()));
    let started = begin(&client, known).await.expect("started");
    let id = started.operation.expect("one").operation_id;
    assert_eq!(end_of(&client, &id).await.state(), OperationState::Done);
    let running = ListOperationsRequest {
        running_only: true,
        ..ListOperationsRequest::default()
    };
    let listed = client.admin.clone().list_operations(running).await;
    let listed = listed.expect("listed").into_inner().operations;
    let seen: Vec<_> = listed
        .iter()
        .map(|one| (&*one.reason, &*one.broker_id))
        .collect();
    assert_eq!(seen, [("its kind is new", ""), ("its filter is new", "")]);
}
