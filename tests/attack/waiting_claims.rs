//! Many claims that wait, and that are cancelled or sent again.

use lease_broker_proto::ClaimBatchRequest;
use prost::Message as _;

use super::arena::{Arena, QUEUE};
use crate::support::frames::{CLAIM_BATCH, END_STREAM, call_headers, cancel, message};
use crate::support::raw_connection::RawConnection;

/// Builds a call that waits for an item for 30 s.
pub(crate) fn waiting_claim(stream: u32, request_id: &str) -> Vec<u8> {
    let request = ClaimBatchRequest {
        queue: QUEUE.to_owned(),
        worker_id: "attacker".to_owned(),
        max_items: 1,
        wait_timeout: Some(prost_types::Duration {
            seconds: 30,
            nanos: 0,
        }),
        request_id: request_id.to_owned(),
        ..ClaimBatchRequest::default()
    };
    let body = message(stream, &request.encode_to_vec(), END_STREAM);
    [call_headers(stream, CLAIM_BATCH, 0), body].concat()
}

#[test]
fn cancelled_waiting_claims_leave_the_connection_open() {
    const BURST: u32 = 500;
    let mut arena = Arena::start();
    let mut connection = RawConnection::open(arena.address());
    let mut next = 1;
    for _ in 0..10 {
        let streams: Vec<u32> = (0..BURST).map(|index| next + 2 * index).collect();
        next += 2 * BURST;
        let claims = streams.iter().flat_map(|stream| waiting_claim(*stream, ""));
        let claims: Vec<u8> = claims.collect();
        connection.send(&claims).expect("sent");
        connection.sync(next);
        next += 2;
        let cancels: Vec<u8> = streams.iter().flat_map(|stream| cancel(*stream)).collect();
        connection.send(&cancels).expect("sent");
    }
    connection.sync(next);
    let received = connection.received();
    let effect = arena.end("5,000 waiting claims, cancelled", connection.sent());
    assert!(
        received.goaway.is_none() && !received.closed,
        "{received:?}"
    );
    effect.bystander_unharmed().memory_below(60);
}

#[test]
fn waiting_claims_with_request_ids_harm_nobody() {
    let mut arena = Arena::start();
    let connections: Vec<RawConnection> = (0..5)
        .map(|_| {
            let mut connection = RawConnection::open(arena.address());
            for index in 0..500 {
                let id = uuid::Uuid::new_v4().to_string();
                connection
                    .send(&waiting_claim(2 * index + 1, &id))
                    .expect("sent");
            }
            connection.sync(1_001);
            connection
        })
        .collect();
    let sent = connections.iter().map(RawConnection::sent).sum();
    let effect = arena.end("2,500 waiting claims with request ids", sent);
    effect.bystander_unharmed().memory_below(100);
}

#[test]
fn one_request_id_sent_a_thousand_times_harms_nobody() {
    let mut arena = Arena::start();
    let id = uuid::Uuid::new_v4().to_string();
    let mut connection = RawConnection::open(arena.address());
    for index in 0..1_000 {
        connection
            .send(&waiting_claim(2 * index + 1, &id))
            .expect("sent");
    }
    connection.sync(2_001);
    let effect = arena.end("one request id, 1,000 times", connection.sent());
    effect.bystander_unharmed().memory_below(60);
}
