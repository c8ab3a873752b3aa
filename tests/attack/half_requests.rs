//! Connections that begin something and never end it, and connections that speak another protocol.

use std::time::{Duration, Instant};

use super::arena::Arena;
use crate::support::frames::{PREFACE, settings};
use crate::support::raw_connection::{RawConnection, wait_until_all_closed};

/// The number of connections of each attack.
const CONNECTIONS: usize = 200;

/// Opens connections that send these bytes and then nothing. Expects that the broker closes all of them, and returns the time
/// that it took.
fn expect_closed(name: &str, settings: &str, bytes: &[u8]) -> Duration {
    let mut arena = Arena::with_config(settings);
    let start = Instant::now();
    let connections: Vec<RawConnection> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = RawConnection::silent(arena.address());
            // The broker may close the connection before all bytes are sent.
            let _ = connection.send(bytes);
            connection
        })
        .collect();
    wait_until_all_closed(&connections);
    let took = start.elapsed();
    let sent = connections.iter().map(RawConnection::sent).sum();
    let effect = arena.end(name, sent);
    effect.bystander_unharmed().memory_below(40);
    took
}

const SHORT_KEEPALIVE: &str = "[server]\nkeepalive_interval = '1s'\nkeepalive_timeout = '1s'";

#[test]
fn half_a_frame_header_is_closed_by_keepalive() {
    let bytes = [PREFACE, &settings(&[]), &[0, 0, 8, 6]].concat();
    expect_closed(
        "half a frame header, 200 connections",
        SHORT_KEEPALIVE,
        &bytes,
    );
}

#[test]
fn client_that_answers_nothing_is_closed_by_keepalive() {
    let bytes = [PREFACE, &settings(&[])].concat();
    expect_closed(
        "no answer to PING, 200 connections",
        SHORT_KEEPALIVE,
        &bytes,
    );
}

/// Expects that the broker closes connections that send these bytes, and not only when their handshake has taken too long.
fn expect_closed_immediately(name: &str, bytes: &[u8]) {
    let took = expect_closed(name, "[server]\nhandshake_timeout = '1m'", bytes);
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn http_1_request_is_closed_immediately() {
    let bytes = b"GET / HTTP/1.1\r\nHost: attack\r\n\r\n";
    expect_closed_immediately("HTTP/1.1 GET, 200 connections", bytes);
}

#[test]
fn tls_hello_is_closed_immediately() {
    // The first bytes of a handshake record of TLS 1.2.
    let mut bytes = vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
    bytes.extend([7; 100]);
    expect_closed_immediately("TLS hello, 200 connections", &bytes);
}

#[test]
fn preface_in_single_bytes_is_closed() {
    // A connection with a whole preface would stay open.
    let settings = "[server]\nhandshake_timeout = '1s'\nkeepalive_interval = '1h'";
    let mut arena = Arena::with_config(settings);
    let mut connections: Vec<_> = (0..CONNECTIONS)
        .map(|_| RawConnection::silent(arena.address()))
        .collect();
    // Four heartbeats take at least 200 ms, so the preface takes about 5 s.
    for byte in PREFACE.chunks(1) {
        for connection in &mut connections {
            // The broker closes the connection in between.
            let _ = connection.send(byte);
        }
        if connections
            .iter()
            .all(|connection| connection.received().closed)
        {
            break;
        }
        arena.hold(4);
    }
    wait_until_all_closed(&connections);
    let sent = connections.iter().map(RawConnection::sent).sum();
    let effect = arena.end("preface in single bytes, 200 connections", sent);
    effect.bystander_unharmed().memory_below(40);
}
