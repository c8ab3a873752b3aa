//! Calls that the client resets as soon as they are sent.

use std::time::{Duration, Instant};

use super::arena::Arena;
use crate::support::frames::{HEARTBEAT, call_headers, cancel, message};
use crate::support::raw_connection::RawConnection;

/// The length of the attack.
const TIME: Duration = Duration::from_secs(3);
/// The number of calls in one write.
const BURST: u32 = 100;

/// Sends bursts of calls that are reset immediately. Returns the bytes sent and the number of connections used.
fn reset_rapidly(address: std::net::SocketAddr) -> (u64, usize) {
    let (mut sent, mut connections) = (0, 0);
    let end = Instant::now() + TIME;
    while Instant::now() < end {
        let mut connection = RawConnection::open(address);
        connections += 1;
        let mut next = 1;
        loop {
            let calls = (0..BURST).map(|index| next + 2 * index);
            let burst: Vec<u8> = calls
                .flat_map(|stream| {
                    [
                        call_headers(stream, HEARTBEAT, 0),
                        message(stream, &[], 0),
                        cancel(stream),
                    ]
                    .concat()
                })
                .collect();
            next += 2 * BURST;
            let ended = Instant::now() >= end;
            if ended || connection.send(&burst).is_err() || connection.received().goaway.is_some() {
                break;
            }
        }
        sent += connection.sent();
    }
    (sent, connections)
}

#[test]
fn rapid_reset_ends_each_connection() {
    let mut arena = Arena::start();
    let lines = |arena: &Arena| arena.broker.log().lines().count();
    let before = lines(&arena);
    let address = arena.address();
    let attackers = [(); 2].map(|()| std::thread::spawn(move || reset_rapidly(address)));
    let results = attackers.map(|attacker| attacker.join().expect("the attacker ends"));
    let sent = results.iter().map(|(sent, _)| sent).sum();
    let logged = lines(&arena) - before;
    let effect = arena.end("rapid reset, 2 connections", sent);
    effect.bystander_unharmed().memory_below(40);
    for (_, connections) in results {
        assert!(connections > 1, "the broker accepted every reset");
    }
    // 100 lines per second.
    assert!(logged <= 300, "{logged} lines");
}
