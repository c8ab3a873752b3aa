//! Clients that claim large items and do not read the answers, or read them a byte at a time.

use std::time::Instant;

use lease_broker_proto::{ClaimBatchRequest, CompleteRequest, Completion, FollowUp, NewItem};
use prost::Message as _;
use tonic::Code;

use super::arena::{Arena, QUEUE};
use crate::support::api_error::assert_api_error;
use crate::support::frames::{
    CLAIM_BATCH, COMPLETE, DATA, END_STREAM, HEADERS, RST_STREAM, call_headers, frame,
    grpc_message, message, window_update,
};
use crate::support::raw_connection::{RawConnection, Received};
use crate::support::timeout::{TEST_TIMEOUT, wait_until};

/// The identifier of the setting for the window of a stream.
const INITIAL_WINDOW: u16 = 4;
/// The time limit of an answer in these tests.
const RESPONSE_TIMEOUT: &str = "[server]\nresponse_timeout = '2s'";

/// Starts a broker with four items of 950 KB. One claim gets all of them.
fn arena_with_large_items() -> Arena {
    let arena = Arena::with_config(RESPONSE_TIMEOUT);
    arena.insert_items(4, 950_000);
    arena
}

/// Builds a claim of all items. All claims have the same request id, so that each gets the same leases.
fn claim(stream: u32) -> Vec<u8> {
    let request = ClaimBatchRequest {
        queue: QUEUE.to_owned(),
        worker_id: "attacker".to_owned(),
        max_items: 4,
        request_id: uuid::Uuid::from_u128(7).to_string(),
        ..ClaimBatchRequest::default()
    };
    let body = message(stream, &request.encode_to_vec(), END_STREAM);
    [call_headers(stream, CLAIM_BATCH, 0), body].concat()
}

/// Waits until the broker has reset a stream, because its answer has not been taken in time.
fn expect_reset(connection: &RawConnection) {
    let reset = connection.wait(TEST_TIMEOUT, |received| received.count(RST_STREAM) > 0);
    assert!(reset.1, "no answer has ended: {:?}", reset.0);
}

#[test]
fn unread_claims_of_large_items_are_bounded() {
    let mut arena = arena_with_large_items();
    let mut connection = RawConnection::with_settings(arena.address(), &[(INITIAL_WINDOW, 0)]);
    for call in 0..200 {
        connection.send(&claim(2 * call + 1)).expect("sent");
    }
    arena.hold(20);
    expect_reset(&connection);
    let effect = arena.end("200 unread claims of 3.8 MB", connection.sent());
    effect.bystander_unharmed().memory_below(280);
}

#[test]
fn answer_that_is_read_bytewise_ends() {
    const CLAIMS: u32 = 10;
    let mut arena = arena_with_large_items();
    let mut connection = RawConnection::with_settings(arena.address(), &[(INITIAL_WINDOW, 0)]);
    let streams = (0..CLAIMS).map(|call| 2 * call + 1);
    for stream in streams.clone() {
        connection.send(&claim(stream)).expect("sent");
    }
    let one_byte: Vec<u8> = streams
        .flat_map(|stream| window_update(stream, 1))
        .collect();
    let end = Instant::now() + TEST_TIMEOUT;
    let burst = one_byte.repeat(20);
    while connection.received().count(RST_STREAM) == 0
        && Instant::now() < end
        && connection.send(&burst).is_ok()
    {}
    // Bytes beside requests are limited too, so a client that sends many updates loses the whole connection.
    let ended = |received: &Received| received.closed || received.count(RST_STREAM) > 0;
    let (received, ended) = connection.wait(TEST_TIMEOUT, ended);
    assert!(ended, "no answer has ended: {received:?}");
    assert!(received.count(DATA) > 0, "no byte was sent: {received:?}");
    let effect = arena.end("10 answers of 3.8 MB, read bytewise", connection.sent());
    effect.bystander_unharmed().memory_below(280);
}

#[test]
fn claims_of_450_large_items_harm_nobody() {
    const ITEMS: usize = 450;
    let mut arena = Arena::start();
    arena.insert_items(ITEMS, 1_000_000);
    let claims = [(); 4].map(|()| {
        let client = arena.client();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let client = client();
                for _ in 0..5 {
                    wait_until("a claim gets leases", async || {
                        match client.try_claim(client.claim_request(1_000)).await {
                            Ok(leases) => !leases.is_empty(),
                            // The other claims have read nothing for 250 ms, as on a busy machine.
                            refused => {
                                assert_api_error(
                                    refused,
                                    Code::ResourceExhausted,
                                    "OVERLOADED",
                                    true,
                                );
                                false
                            }
                        }
                    })
                    .await;
                }
            });
        })
    });
    for claim in claims {
        claim.join().expect("every claim gets leases");
    }
    let effect = arena.end("20 claims of 1,000 items of 1 MB", 0);
    effect.bystander_unharmed().memory_below(280);
}

/// Claims an item, and returns its lease.
fn held_lease(arena: &Arena) -> String {
    let client = arena.client();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let client = client();
        client.enqueue(&["held"]).await;
        client.claim_one().await.lease_id
    })
}

/// Builds a call of 400 completions, each of which is refused with a text of half a kilobyte. It fits into the window of a stream.
fn refused_completions(stream: u32, lease: &str) -> Vec<u8> {
    let follow_up = FollowUp {
        queue: "x".repeat(500),
        item: Some(NewItem::default()),
    };
    let completion = Completion {
        lease_id: lease.to_owned(),
        follow_ups: vec![follow_up],
        ..Completion::default()
    };
    let request = CompleteRequest {
        queue: QUEUE.to_owned(),
        completions: vec![completion; 400],
        next: None,
    };
    let body = grpc_message(&request.encode_to_vec());
    let parts = body.chunks(16_384);
    let last = parts.len() - 1;
    let parts = parts.enumerate().flat_map(|(index, part)| {
        let flags = if index == last { END_STREAM } else { 0 };
        frame(DATA, flags, stream, part)
    });
    call_headers(stream, COMPLETE, 0)
        .into_iter()
        .chain(parts)
        .collect()
}

/// Sends these calls, each when the headers of the answer before it have arrived.
fn send_answered(connection: &mut RawConnection, calls: u32, call: impl Fn(u32) -> Vec<u8>) {
    for index in 0..calls {
        connection.send(&call(2 * index + 1)).expect("sent");
        let is_answered = |received: &Received| received.count(HEADERS) > index as usize;
        let (received, answered) = connection.wait(TEST_TIMEOUT, is_answered);
        assert!(answered, "no answer: {received:?}");
    }
}

#[test]
fn unread_answers_of_settlements_are_bounded() {
    const CALLS: u32 = 300;
    let mut arena = Arena::with_config("budgets.response_bytes = 16777216");
    let lease = held_lease(&arena);
    let mut connection = RawConnection::with_settings(arena.address(), &[(INITIAL_WINDOW, 0)]);
    send_answered(&mut connection, CALLS, |stream| {
        refused_completions(stream, &lease)
    });
    arena.hold(10);
    let effect = arena.end(
        "300 unread answers of 220 KB to settlements",
        connection.sent(),
    );
    // The answers have 66 MB together. The budget lets 16 MiB wait, and the allocator keeps some of what is freed.
    effect.bystander_unharmed().memory_below(48);
}

#[test]
fn answers_of_settlements_with_a_window_of_one_byte_end() {
    const CALLS: u32 = 20;
    let mut arena = Arena::with_config(RESPONSE_TIMEOUT);
    let lease = held_lease(&arena);
    let mut connection = RawConnection::with_settings(arena.address(), &[(INITIAL_WINDOW, 1)]);
    send_answered(&mut connection, CALLS, |stream| {
        refused_completions(stream, &lease)
    });
    let all_end = |received: &Received| received.count(RST_STREAM) == CALLS as usize;
    let (received, ended) = connection.wait(TEST_TIMEOUT, all_end);
    assert!(ended, "the broker keeps answers: {received:?}");
    let effect = arena.end("20 answers of 220 KB, one byte read", connection.sent());
    effect.bystander_unharmed().memory_below(32);
}
