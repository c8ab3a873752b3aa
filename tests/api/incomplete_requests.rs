//! Connections and requests that their clients do not finish, tested with raw HTTP/2 frames.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use lease_broker_proto::{HeartbeatRequest, HeartbeatResponse};
use prost::Message as _;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::support::api_error::assert_api_error;
use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, ENQUEUE, HEADERS, HEARTBEAT, PREFACE, call_headers, frame,
    literal, message,
};
use crate::support::raw_connection::{RawConnection, Received, blocking};
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::{TEST_TIMEOUT, with_timeout};

async fn start(settings: &str) -> Server {
    Server::with_config(&format!("{settings}\n{QUEUE}")).await
}

#[tokio::test]
async fn silent_connection_is_closed() {
    let server = start("[server]\nhandshake_timeout = '100ms'").await;
    for greeting in [&b""[..], b"PRI * HTTP/2.0\r\n"] {
        let start = Instant::now();
        let mut connection = RawConnection::silent(server.address);
        connection.send(greeting).expect("sent");
        blocking(move || connection.wait_until_closed()).await;
        assert!(start.elapsed() > Duration::from_millis(90));
    }
}

#[tokio::test]
async fn idle_connection_gets_goaway() {
    let server =
        start("[server]\nmax_connection_idle = '200ms'\nhandshake_timeout = '100ms'").await;
    let connection = RawConnection::open(server.address);
    blocking(move || connection.goaway()).await;
}

#[tokio::test]
async fn connection_over_the_limit_is_closed() {
    let server = start("[server]\nmax_connections = 1").await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let mut second = RawConnection::silent(server.address);
    // The server may have closed the connection before the preface is sent.
    let _ = second.send(PREFACE);
    blocking(move || second.wait_until_closed()).await;
    assert_eq!(client.claim(1).await.len(), 1);
}

#[tokio::test]
async fn slow_request_can_be_sent_again() {
    let server = start("[server]\nrequest_timeout = '200ms'").await;
    let mut grpc = tonic::client::Grpc::new(server.channel().await);
    grpc.ready().await.expect("the channel is ready");
    let path = HEARTBEAT.parse().expect("a path");
    // The headers are sent, and the message never comes.
    let never = tonic::Request::new(tokio_stream::pending::<HeartbeatRequest>());
    let codec = tonic_prost::ProstCodec::<_, HeartbeatResponse>::default();
    let refused = with_timeout(grpc.client_streaming(never, path, codec)).await;
    let refused = refused.expect_err("the message never comes");
    let info = refused.get_details_error_info().expect("the reason");
    assert_eq!(info.metadata["applied"], "no");
    assert_api_error(
        Err::<(), _>(refused),
        Code::Unavailable,
        "REQUEST_INCOMPLETE",
        true,
    );
}

#[tokio::test]
async fn request_can_end_with_an_empty_frame_or_with_trailers() {
    let server = start("").await;
    let mut connection = RawConnection::open(server.address);
    let heartbeat = HeartbeatRequest {
        queue: "work".to_owned(),
        ..HeartbeatRequest::default()
    };
    let call = |stream: u32| {
        let body = message(stream, &heartbeat.encode_to_vec(), 0);
        [call_headers(stream, HEARTBEAT, 0), body].concat()
    };
    let trailers = literal(b"x-trailer", b"1");
    let calls = [
        call(1),
        frame(DATA, END_STREAM, 1, &[]),
        call(3),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, &trailers),
    ];
    connection.send(&calls.concat()).expect("sent");
    let is_answered = |received: &Received| received.answers == 2;
    let (received, _) = blocking(move || connection.wait(TEST_TIMEOUT, is_answered)).await;
    // A call that is refused has no message.
    assert_eq!(received.count(DATA), 2, "{received:?}");
}

#[tokio::test]
async fn incomplete_requests_take_no_place_of_calls() {
    let settings = "[budgets]\nsettlements = 1\nworking_calls = 1\nincomplete_requests = 16";
    let server = start(settings).await;
    let mut connection = RawConnection::open(server.address);
    for call in 0..100 {
        for (stream, path) in [(2 * call + 1, HEARTBEAT), (2 * call + 20_001, ENQUEUE)] {
            connection
                .send(&call_headers(stream, path, 0))
                .expect("sent");
        }
    }
    let client = server.client().await;
    for _ in 0..20 {
        client.enqueue(&["a"]).await;
        let lease = client.claim_one().await;
        let held = client.try_heartbeat(&[&lease.lease_id], None).await;
        assert!(held.expect("a heartbeat")[0].time_left.is_some());
    }
}

#[tokio::test]
async fn incomplete_requests_do_not_delay_shutdown() {
    // Longer than the test: a request or a connection that delays the shutdown fails it.
    let mut server = start("[server]\nrequest_timeout = '1h'\ndrain_grace = '1h'").await;
    let mut connection = RawConnection::open(server.address);
    for call in 0..10 {
        let headers = call_headers(2 * call + 1, HEARTBEAT, 0);
        connection.send(&headers).expect("sent");
    }
    let silent = TcpStream::connect(server.address).expect("connected");
    // The answer to a later call on another connection does not prove that these have arrived, so that the server may also
    // close the connection before it reads them.
    server.client().await.enqueue(&["a"]).await;
    assert!(with_timeout(server.drain()).await, "a call was cut off");
    drop(silent);
}

#[tokio::test]
async fn large_request_in_many_frames_is_received() {
    let server = Server::start().await;
    let client = server.client().await;
    let large = "x".repeat(3_000_000);
    client.enqueue(&[&large]).await;
    let lease = client.claim_one().await;
    assert_eq!(crate::support::client::payload(&lease).len(), large.len());
}
