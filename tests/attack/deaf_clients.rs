//! Clients that are deaf: they read nothing and acknowledge nothing. They take streams, connections and places, and must leave
//! some to others.

use std::io::ErrorKind;
use std::net::Ipv4Addr;

use lease_broker_proto::HeartbeatRequest;
use prost::Message as _;
use tonic::{Code, Status};

use super::arena::{Arena, QUEUE};
use super::waiting_claims::waiting_claim;
use crate::support::api_error::ApiError;
use crate::support::client::{item, renewal};
use crate::support::frames::{
    END_STREAM, HEARTBEAT, PREFACE, call_headers, frame, message, settings, window_update,
};
use crate::support::raw_connection::RawConnection;
use crate::support::timeout::with_timeout;

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// The identifier of the setting for the window of a stream.
const INITIAL_WINDOW: u16 = 4;
/// Another address of this host.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Connects from an address. The client gives answers no room.
fn deaf(own: Ipv4Addr, arena: &Arena) -> RawConnection {
    let mut connection = RawConnection::unread_from(own, arena.address());
    let hello = [PREFACE, &settings(&[(INITIAL_WINDOW, 0)])].concat();
    // The broker may have refused the connection.
    let _ = connection.try_send(&hello);
    connection
}

/// Builds a whole call of the API, to which the answer has data.
fn heartbeat(stream: u32) -> Vec<u8> {
    let request = HeartbeatRequest {
        queue: QUEUE.to_owned(),
        renewals: vec![renewal("unknown")],
        lease_duration: None,
    };
    let body = message(stream, &request.encode_to_vec(), END_STREAM);
    [call_headers(stream, HEARTBEAT, 0), body].concat()
}

/// Runs calls of an honest client on a connection of its own. None may fail, but on a busy machine one may have to be sent again after
/// the delay in its answer: the attackers have the same address, and the broker has not read all their calls.
fn expect_served(arena: &Arena) {
    let client = arena.client();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let client = client();
        served(async || client.try_enqueue(vec![item("honest")]).await).await;
        let leases = served(async || client.try_claim(client.claim_request(1)).await).await;
        assert_eq!(leases.len(), 1);
    });
}

/// Sends a call until it is not refused for overload.
async fn served<T>(call: impl AsyncFn() -> Result<T, Status>) -> T {
    with_timeout(async {
        loop {
            let status = match call().await {
                Ok(answer) => return answer,
                Err(status) => status,
            };
            let error = ApiError::from_status(&status);
            assert_eq!(error.code, Code::ResourceExhausted, "{status:?}");
            tokio::time::sleep(error.retry_after.expect("a delay")).await;
        }
    })
    .await
}

/// Opens this many streams on each of 20 connections, whose answers are never read.
fn open_streams(arena: &Arena, calls: u32, call: impl Fn(u32) -> Vec<u8> + Sync) -> u64 {
    let attack = || {
        let mut connection = deaf(Ipv4Addr::LOCALHOST, arena);
        // The broker may close the connection, or stop to read.
        let sent = (0..calls).all(|index| connection.try_send(&call(2 * index + 1)).is_ok());
        (connection, sent)
    };
    let connections: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20).map(|_| scope.spawn(attack)).collect();
        let threads = threads.into_iter();
        threads
            .map(|thread| thread.join().expect("an attacker"))
            .collect()
    });
    arena.hold(20);
    expect_served(arena);
    connections
        .iter()
        .map(|(connection, _)| connection.sent())
        .sum()
}

#[test]
fn unread_health_checks_on_20_connections_are_bounded() {
    let mut arena = Arena::start();
    let sent = open_streams(&arena, 1_000, |stream| {
        let body = message(stream, &[], END_STREAM);
        [call_headers(stream, CHECK, 0), body].concat()
    });
    let effect = arena.end("20 x 1,000 unread health checks", sent);
    effect.bystander_unharmed().memory_below(40);
}

#[test]
fn unread_calls_on_20_connections_are_bounded() {
    let mut arena = Arena::with_config("budgets.open_streams = 1000");
    let sent = open_streams(&arena, 1_000, heartbeat);
    let effect = arena.end("20 x 1,000 unread heartbeats", sent);
    effect.bystander_unharmed().memory_below(40);
}

#[test]
fn silent_connections_of_one_address_keep_nobody_out() {
    let mut arena = Arena::with_config("server.max_connections = 100");
    let connections: Vec<_> = (0..300).map(|_| deaf(ATTACKER, &arena)).collect();
    arena.hold(5);
    for _ in 0..10 {
        expect_served(&arena);
    }
    let sent = connections.iter().map(RawConnection::sent).sum();
    let effect = arena.end("300 silent connections of one address", sent);
    effect.bystander_unharmed();
}

#[test]
fn busy_connections_of_one_address_keep_nobody_out() {
    let mut arena = Arena::with_config("server.max_connections = 100");
    let mut connections: Vec<_> = (0..300).map(|_| deaf(ATTACKER, &arena)).collect();
    for connection in &mut connections {
        // A whole call makes its connection a trusted one.
        let _ = connection.try_send(&heartbeat(1));
    }
    arena.hold(5);
    for _ in 0..10 {
        expect_served(&arena);
    }
    let sent = connections.iter().map(RawConnection::sent).sum();
    let effect = arena.end("300 busy connections of one address", sent);
    effect.bystander_unharmed();
}

#[test]
fn half_open_health_checks_leave_places_to_large_requests() {
    let mut arena = Arena::with_config("budgets.incomplete_requests = 16");
    let connections: Vec<_> = (0..300)
        .map(|_| {
            let mut connection = deaf(Ipv4Addr::LOCALHOST, &arena);
            let _ = connection.try_send(&call_headers(1, CHECK, 0));
            connection
        })
        .collect();
    arena.hold(5);
    let client = arena.client();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let (client, large) = (client(), "x".repeat(3_000_000));
        for _ in 0..4 {
            client.enqueue(&[&large]).await;
        }
    });
    let sent = connections.iter().map(RawConnection::sent).sum();
    let effect = arena.end("300 half-open health checks", sent);
    effect.bystander_unharmed();
}

/// Frames that belong to no request, on a connection with an open stream. The broker reads no more than a few MiB of them.
fn expect_cut(name: &str, one: &[u8]) {
    const MAX_BYTES: u64 = 32 << 20;
    let mut arena = Arena::start();
    let mut connection = deaf(Ipv4Addr::LOCALHOST, &arena);
    let watch = message(1, &[], END_STREAM);
    let watch = [call_headers(1, WATCH, 0), watch].concat();
    connection.send(&watch).expect("sent");
    let burst = one.repeat(65_536 / one.len());
    let error = loop {
        match connection.try_send(&burst) {
            Ok(()) if connection.sent() < MAX_BYTES => {}
            Ok(()) => break None,
            Err(error) => break Some(error.kind()),
        }
    };
    let effect = arena.end(name, connection.sent());
    let closed = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].map(Some);
    assert!(closed.contains(&error), "not closed: {error:?}");
    effect.bystander_unharmed().memory_below(30);
}

#[test]
fn unknown_frames_beside_an_open_stream_end_the_connection() {
    let one = frame(0xbe, 0, 0, &[1; 1_000]);
    expect_cut("frames of an unknown type beside a stream", &one);
}

#[test]
fn window_updates_beside_an_open_stream_end_the_connection() {
    let one = [window_update(1, 1), window_update(0, 1)].concat();
    expect_cut("WINDOW_UPDATE beside a stream", &one);
}

#[test]
fn waiting_claims_of_six_connections_leave_places_to_another() {
    // A fifth of the places for each of six, as with 2,000 of 10,000.
    let mut arena = Arena::with_config("budgets.waiting_claims = 2000");
    let connections: Vec<_> = (0..6)
        .map(|_| {
            let mut connection = deaf(Ipv4Addr::LOCALHOST, &arena);
            for index in 0..400 {
                let _ = connection.try_send(&waiting_claim(2 * index + 1, ""));
            }
            connection
        })
        .collect();
    arena.hold(5);
    let client = arena.client();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let client = client();
        for _ in 0..5 {
            // It is refused if it has no place to wait in.
            let waiting = client.waiting_claim_request(1, std::time::Duration::from_millis(100));
            with_timeout(client.try_claim(waiting))
                .await
                .expect("a place");
        }
    });
    let sent = connections.iter().map(RawConnection::sent).sum();
    let effect = arena.end("2,400 waiting claims of 6 connections", sent);
    effect.bystander_unharmed();
}
