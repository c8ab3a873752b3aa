//! Callers that disconnect while their statement runs. The statement still runs to its end.

use std::task::{Context, Waker};

use lease_broker_store::{Leases as _, QueueIndex};

use crate::wire::answers::{OPERATION, claimed, held};
use crate::wire::fixture::{Fixture, LONG_LIMITS, Limits, renewals};
use crate::wire::responder::log::Event;
use crate::wire::responder::script::{Gate, Reply};

/// Starts a heartbeat of one lease, and drops its future once the server has the statement.
async fn leave_during_heartbeat(fixture: &Fixture) {
    let mut heartbeat = fixture.store.heartbeat(QueueIndex(0), renewals(1));
    let waiting = heartbeat
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(waiting.is_pending());
    fixture.server.wait_for_requests(OPERATION, 1).await;
    drop(heartbeat);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_caller_does_not_delay_the_next() {
    let fixture = Fixture::start().await;
    let gate = Gate::closed();
    fixture
        .server
        .on(OPERATION, vec![Reply::After(gate.clone(), held(1))]);
    leave_during_heartbeat(&fixture).await;
    fixture
        .server
        .on(OPERATION, vec![Reply::Answer(claimed(1..=2))]);
    assert_eq!(fixture.claim().await.expect("claimed").len(), 2);
    let requests = fixture.server.requests(OPERATION);
    assert_ne!(
        requests[0].connection, requests[1].connection,
        "the first connection is still in use"
    );
    gate.open();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operation_of_a_departed_caller_is_read_to_the_end() {
    let fixture = Fixture::with(Limits {
        connections: 1,
        ..LONG_LIMITS
    })
    .await;
    let gate = Gate::closed();
    let replies = vec![
        Reply::After(gate.clone(), held(1)),
        Reply::Answer(claimed(1..=2)),
    ];
    fixture.server.on(OPERATION, replies);
    leave_during_heartbeat(&fixture).await;
    gate.open();
    assert_eq!(fixture.claim().await.expect("claimed").len(), 2);
    let requests = fixture.server.requests(OPERATION);
    assert_eq!(requests[0].connection, requests[1].connection);
    let attention = fixture.server.count(|event| *event == Event::Attention);
    assert_eq!(attention, 0, "the statement was cancelled");
}
