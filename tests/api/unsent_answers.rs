//! Answers to claims of which no byte leaves before the call ends: the broker releases their leases. Raw HTTP/2.

use std::net::SocketAddr;
use std::time::Duration;

use lease_broker_proto::ClaimBatchRequest;
use prost::Message as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::support::client::duration;
use crate::support::database;
use crate::support::frames::{
    CLAIM_BATCH, DATA, END_STREAM, HEADERS, PING, call_headers, cancel, frame, message,
    window_update,
};
use crate::support::raw_connection::{RawConnection, blocking};
use crate::support::server::Server;
use crate::support::timeout::{TEST_TIMEOUT, wait_until};

/// The identifier of the setting for the window of a stream.
const INITIAL_WINDOW: u16 = 4;

/// Builds a claim of one item for an hour. An empty `request_id` is none.
fn claim(stream: u32, request_id: &str) -> Vec<u8> {
    let request = ClaimBatchRequest {
        queue: "work".to_owned(),
        worker_id: "raw".to_owned(),
        max_items: 1,
        lease_duration: Some(duration(Duration::from_secs(3_600))),
        request_id: request_id.to_owned(),
        ..ClaimBatchRequest::default()
    };
    let body = message(stream, &request.encode_to_vec(), END_STREAM);
    [call_headers(stream, CLAIM_BATCH, 0), body].concat()
}

/// Sends a claim on a connection whose streams have a window of this many bytes. Returns when the broker has answered, which the
/// headers of its answer show, and when as much of the answer has arrived as fits.
fn answered_claim(address: SocketAddr, window: u32, request_id: &str) -> RawConnection {
    let mut connection = RawConnection::with_settings(address, &[(INITIAL_WINDOW, window)]);
    connection.send(&claim(1, request_id)).expect("sent");
    let (received, is_answered) = connection.wait(TEST_TIMEOUT, |received| {
        received.count(HEADERS) > 0 && (window == 0 || received.count(DATA) > 0)
    });
    assert!(is_answered, "no answer: {received:?}");
    assert_eq!(received.count(DATA), usize::from(window > 0));
    connection
}

/// Returns the number of leased items.
fn leased(server: &Server) -> i64 {
    let sql = "SELECT count(*) FROM work WHERE lease_state = 1";
    database::query_value(&server.database(), sql)
}

/// Waits until the broker has done all that it does for calls that have ended: it settles one list after the other.
async fn settle_another(server: &Server) {
    let client = server.client().await;
    client.enqueue(&["another"]).await;
    let leases = client.claim(1_000).await;
    for lease in leases {
        client.complete(&[&lease.lease_id]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsent_answer_of_a_reset_call_gives_no_lease() {
    let server = Server::start().await;
    let address = server.address;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    blocking(move || {
        let mut connection = answered_claim(address, 0, "");
        connection.send(&cancel(1)).expect("sent");
        connection.sync(3);
    })
    .await;
    wait_until("the item is free", async || leased(&server) == 0).await;
    assert_eq!(client.claim(1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsent_answer_of_a_closed_connection_gives_no_lease() {
    let server = Server::start().await;
    let address = server.address;
    server.client().await.enqueue(&["a"]).await;
    blocking(move || drop(answered_claim(address, 0, ""))).await;
    wait_until("the item is free", async || leased(&server) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_that_has_begun_to_leave_keeps_its_lease() {
    let server = Server::start().await;
    let address = server.address;
    server.client().await.enqueue(&["a"]).await;
    blocking(move || {
        let mut connection = answered_claim(address, 1, "");
        connection.send(&cancel(1)).expect("sent");
        connection.sync(3);
    })
    .await;
    settle_another(&server).await;
    assert_eq!(leased(&server), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsent_answer_of_a_claim_with_request_id_keeps_its_lease() {
    let server = Server::start().await;
    let address = server.address;
    server.client().await.enqueue(&["a"]).await;
    blocking(move || {
        let id = uuid::Uuid::from_u128(7).to_string();
        let mut connection = answered_claim(address, 0, &id);
        connection.send(&cancel(1)).expect("sent");
        connection.sync(3);
    })
    .await;
    settle_another(&server).await;
    assert_eq!(leased(&server), 1);
}

/// Each answer is one DATA frame, and the client reads all frames. So it has received as many as there are leases.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_claims_keep_the_leases_that_were_sent() {
    const ROUNDS: u32 = 20;
    const CLAIMS: u32 = 50;
    let server = Server::start().await;
    let address = server.address;
    let client = server.client().await;
    let payloads = vec!["a"; (ROUNDS * CLAIMS) as usize];
    client.enqueue(&payloads).await;
    let seed = rand::random();
    eprintln!("seed {seed}");
    let sent = blocking(move || {
        let mut random = StdRng::seed_from_u64(seed);
        let mut connection = RawConnection::open(address);
        // The window of the connection never ends.
        connection
            .send(&window_update(0, 0x7000_0000))
            .expect("sent");
        for round in 0..ROUNDS {
            let streams = (0..CLAIMS).map(|claim| 2 * (round * CLAIMS + claim) + 1);
            let claims: Vec<u8> = streams
                .clone()
                .flat_map(|stream| claim(stream, ""))
                .collect();
            connection.send(&claims).expect("sent");
            std::thread::sleep(Duration::from_micros(random.random_range(0..8_000)));
            let resets: Vec<u8> = streams.flat_map(cancel).collect();
            connection.send(&resets).expect("sent");
        }
        // The broker answers it after it has read all resets.
        connection.send(&frame(PING, 0, 0, &[7; 8])).expect("sent");
        let (received, is_answered) =
            connection.wait(TEST_TIMEOUT, |received| received.count(PING) > 0);
        assert!(is_answered, "no answer: {received:?}");
        received.count(DATA)
    })
    .await;
    let sent = i64::try_from(sent).expect("a small number");
    wait_until("only leases that were sent are held", async || {
        leased(&server) == sent
    })
    .await;
}
