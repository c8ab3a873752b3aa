//! Clients that claim large items and do not read the answers, or read them a byte at a time.

use std::time::Instant;

use lease_broker_proto::ClaimBatchRequest;
use prost::Message as _;
use tonic::Code;

use super::arena::{Arena, QUEUE};
use crate::support::api_error::assert_api_error;
use crate::support::frames::{
    CLAIM_BATCH, DATA, END_STREAM, RST_STREAM, call_headers, message, window_update,
};
use crate::support::raw_connection::RawConnection;
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
    while connection.received().count(RST_STREAM) == 0 && Instant::now() < end {
        connection.send(&burst).expect("sent");
    }
    expect_reset(&connection);
    let received = connection.received();
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
