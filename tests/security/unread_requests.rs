//! Calls without valid credentials: the broker answers by their headers, and reads no byte of their bodies.

use crate::support::frames::{END_HEADERS, HEADERS, call_block, frame};
use crate::support::raw_connection::{RawConnection, blocking};
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::TEST_TIMEOUT;

/// A broker without TLS on loopback, with access control.
async fn start() -> Server {
    start_with("").await
}

async fn start_with(settings: &str) -> Server {
    let auth = "server.request_timeout = '1h'\n[auth]\nanonymous = []\n";
    Server::with_config(&format!("{settings}{auth}{QUEUE}")).await
}

/// Builds the headers of a call of the API.
fn call_headers(stream: u32, rpc: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let path = format!("/leasebroker.v1.LeaseService/{rpc}");
    frame(HEADERS, END_HEADERS, stream, &call_block(&path, more))
}

#[tokio::test]
async fn call_is_refused_before_its_body_arrives() {
    let server = start().await;
    let address = server.address;
    blocking(move || {
        let mut connection = RawConnection::open(address);
        // With credentials, the broker would wait for the bodies, for `request_timeout`.
        for (index, rpc) in ["ClaimBatch", "Enqueue", "Heartbeat", "Unknown"]
            .iter()
            .enumerate()
        {
            let stream = u32::try_from(2 * index + 1).expect("a stream");
            let headers = call_headers(stream, rpc, &[]);
            connection.send(&headers).expect("sent");
            let answered =
                connection.wait(TEST_TIMEOUT, |received| received.count(HEADERS) > index);
            assert!(answered.1, "{rpc}: {:?}", answered.0);
        }
    })
    .await;
}

#[tokio::test]
async fn fifth_failure_ends_the_connection() {
    let server = start().await;
    let address = server.address;
    blocking(move || {
        let mut connection = RawConnection::open(address);
        for stream in [1, 3, 5, 7, 9] {
            let token = [("authorization", "Bearer lb_wrong")];
            let headers = call_headers(stream, "Wake", &token);
            connection.send(&headers).expect("sent");
        }
        connection.goaway();
    })
    .await;
}

#[tokio::test]
async fn failures_behind_a_listed_proxy_leave_the_connection_open() {
    let server = start_with("server.trusted_proxies = ['127.0.0.1']\n").await;
    let address = server.address;
    blocking(move || {
        let mut connection = RawConnection::open(address);
        for index in 0..20 {
            let token = [("authorization", "Bearer lb_wrong")];
            let headers = call_headers(2 * index + 1, "Wake", &token);
            connection.send(&headers).expect("sent");
        }
        let (received, answered) = connection.wait(TEST_TIMEOUT, |received| received.answers == 20);
        assert!(answered && received.goaway.is_none(), "{received:?}");
    })
    .await;
}
