//! Greedy callers: requests that never end, messages that are larger than they look, answers that are never read, and
//! streams that are held open.

use super::arena::Arena;
use crate::support::frames::{DATA, END_STREAM, HEARTBEAT, call_headers, frame, message};
use crate::support::raw_connection::{RawConnection, wait_until_all_closed};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
/// The identifier of the setting for the window of a stream.
const INITIAL_WINDOW: u16 = 4;
/// The number of heartbeats for which an attack keeps its connections open. They take at least 2 s.
const HOLD: usize = 40;

fn stream(call: u32) -> u32 {
    2 * call + 1
}

/// Sends the frames of these calls on one connection, and then one more call after each heartbeat.
fn keep_calling(
    arena: &Arena,
    connection: &mut RawConnection,
    calls: u32,
    frames: impl Fn(u32) -> Vec<u8>,
) {
    for call in 0..calls {
        if connection.try_send(&frames(stream(call))).is_err() {
            return;
        }
    }
    for call in (calls..).take(HOLD) {
        arena.hold(1);
        let _ = connection.try_send(&frames(stream(call)));
    }
}

#[test]
fn headers_without_bodies_refuse_nobody_else() {
    let mut arena = Arena::start();
    let mut connection = RawConnection::open(arena.address());
    keep_calling(&arena, &mut connection, 17_000, |stream| {
        call_headers(stream, HEARTBEAT, 0)
    });
    let effect = arena.end("17,000 HEADERS without bodies", connection.sent());
    effect.bystander_unharmed().memory_below(100);
}

#[test]
fn headers_without_bodies_on_20_connections() {
    // An unoptimized broker takes seconds to refuse 20,000 calls.
    let calls = if cfg!(debug_assertions) { 100 } else { 1_000 };
    let mut arena = Arena::start();
    let mut connections: Vec<_> = (0..20)
        .map(|_| RawConnection::open(arena.address()))
        .collect();
    for connection in &mut connections {
        for call in 0..calls {
            let _ = connection.try_send(&call_headers(stream(call), HEARTBEAT, 0));
        }
    }
    arena.hold(HOLD);
    let sent = connections.iter().map(RawConnection::sent).sum();
    let effect = arena.end(&format!("20 x {calls} HEADERS without bodies"), sent);
    effect.bystander_unharmed().memory_below(100);
}

#[test]
fn announced_lengths_take_no_memory() {
    let mut arena = Arena::start();
    let mut connection = RawConnection::open(arena.address());
    // A message of 4 MiB is announced, and none of its bytes comes.
    let prefix = [0, 0, 0x40, 0, 0];
    keep_calling(&arena, &mut connection, 500, |stream| {
        let mut frames = call_headers(stream, HEARTBEAT, 0);
        frames.extend(frame(DATA, 0, stream, &prefix));
        frames
    });
    let effect = arena.end("500 announced lengths of 4 MiB", connection.sent());
    effect.bystander_unharmed().memory_below(40);
}

#[test]
fn silent_connections_are_closed() {
    let mut arena = Arena::with_config("[server]\nhandshake_timeout = '1s'");
    let connections: Vec<_> = (0..1_000)
        .map(|_| RawConnection::silent(arena.address()))
        .collect();
    wait_until_all_closed(&connections);
    let effect = arena.end("1,000 silent connections", 0);
    effect.bystander_unharmed().memory_below(100);
}

/// Sends whole requests on one connection whose client gives the answers no window.
fn expect_bounded(name: &str, path: &str, request: &[u8], calls: u32, memory: u64) {
    let mut arena = Arena::start();
    let mut connection = RawConnection::with_settings(arena.address(), &[(INITIAL_WINDOW, 0)]);
    keep_calling(&arena, &mut connection, calls, |stream| {
        let mut frames = call_headers(stream, path, 0);
        frames.extend(message(stream, request, END_STREAM));
        frames
    });
    let effect = arena.end(name, connection.sent());
    effect.bystander_unharmed().memory_below(memory);
}

#[test]
fn unread_health_checks_are_bounded() {
    expect_bounded("50,000 unread health checks", CHECK, &[], 50_000, 60);
}

#[test]
fn unread_health_watches_are_bounded() {
    expect_bounded("50,000 unread health watches", WATCH, &[], 50_000, 60);
}

#[test]
fn unread_reflection_streams_are_bounded() {
    // Asks for the file that declares the API.
    let name = b"leasebroker/v1/lease_broker.proto";
    let mut request = vec![0x1a, u8::try_from(name.len()).expect("a short name")];
    request.extend(name);
    expect_bounded(
        "2,000 unread reflection streams",
        REFLECTION,
        &request,
        2_000,
        60,
    );
}
