//! Addresses at which no server answers. Opening a store fails within the connect timeout.

use std::time::{Duration, Instant};

use lease_broker_store::{OutageCause, StoreError};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::harness::errors::unavailable;
use crate::support::skipped::skipped;
use crate::wire::fixture::{LONG_LIMITS, Limits, PLAIN, SHORT, open_with};

/// The time limit of a failed start. It leaves room for a busy machine, and is shorter than the long limits.
const MAX_TIME: Duration = Duration::from_secs(45);
const SHORT_CONNECT: Limits = Limits {
    connect: SHORT,
    ..LONG_LIMITS
};

async fn assert_unavailable(address: std::net::SocketAddr) {
    let start = Instant::now();
    let opened = open_with(address, SHORT_CONNECT, PLAIN).await.map(|_| ());
    let error = opened.expect_err("no server answers");
    assert!(start.elapsed() < MAX_TIME, "{:?}", start.elapsed());
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_port_is_unavailable_in_time() {
    // The socket is bound, so that no other program gets the port, but it does not listen.
    let held = TcpSocket::new_v4().expect("a socket");
    held.bind("127.0.0.1:0".parse().expect("an address"))
        .expect("a free port");
    assert_unavailable(held.local_addr().expect("an address")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_address_is_unavailable_in_time() {
    let Some((listener, _waiting)) = full_listener().await else {
        skipped("a listener on this machine accepts every connection");
        return;
    };
    assert_unavailable(listener.local_addr().expect("an address")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_connection_is_reported_with_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    // Ends each connection in one of two ways: with the data that the broker has sent, and with data that was not read.
    let closing = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.readable().await;
            let _ = stream.try_read(&mut [0; 4096]);
            drop(stream);
            let (stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.readable().await;
            drop(stream);
        }
    });
    for _ in 0..2 {
        let outage = unavailable(open_with(address, LONG_LIMITS, PLAIN).await.map(drop));
        let expected = format!("{address}: the server closed the connection during the login");
        assert!(outage.reason.starts_with(&expected), "{outage:?}");
        assert_eq!(outage.cause, OutageCause::NoConnection);
    }
    closing.abort();
}

/// Returns a listener whose queue is full, and the connections that fill it. `None`: it accepts every connection.
async fn full_listener() -> Option<(TcpListener, Vec<TcpStream>)> {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .bind("127.0.0.1:0".parse().expect("an address"))
        .expect("a free port");
    let listener = socket.listen(1).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let mut waiting = Vec::new();
    for _ in 0..8 {
        match timeout(SHORT, TcpStream::connect(address)).await {
            Ok(connected) => waiting.push(connected.expect("a connection")),
            Err(_) => return Some((listener, waiting)),
        }
    }
    None
}
