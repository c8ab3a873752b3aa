//! Calls that the client resets as soon as they are sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use super::arena::Arena;
use crate::support::frames::{HEARTBEAT, call_headers, cancel, message};
use crate::support::raw_connection::RawConnection;
use crate::support::timeout::{TEST_TIMEOUT, wait_until_blocking};

/// The number of heartbeats for which the attack lasts at least. They take at least 1 s, and several seconds under attack.
const HOLD: usize = 20;
/// The number of calls in one write.
const BURST: u32 = 100;

/// A thread that attacks on one connection at a time.
#[derive(Default)]
struct Attacker {
    stop: AtomicBool,
    sent: AtomicU64,
    /// The number of connections that the broker has ended.
    ended: AtomicUsize,
}

impl Attacker {
    /// Sends bursts of calls that are reset immediately. Takes a new connection each time the broker ends one.
    fn reset_rapidly(&self, address: SocketAddr) {
        while !self.is_stopped() {
            let mut connection = RawConnection::open(address);
            let mut next = 1;
            while !self.is_stopped()
                && connection.received().goaway.is_none()
                && connection.try_send(&burst(next)).is_ok()
            {
                next += 2 * BURST;
            }
            self.sent.fetch_add(connection.sent(), Ordering::Relaxed);
            if self.is_stopped() {
                return;
            }
            // A slow broker may have read nothing for so long that sending failed.
            let (received, ended) = connection.wait(TEST_TIMEOUT, |received| {
                received.goaway.is_some() || received.closed
            });
            assert!(ended, "the broker accepts every reset: {received:?}");
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Builds calls from this stream on, each with its reset.
fn burst(first: u32) -> Vec<u8> {
    let streams = (0..BURST).map(|index| first + 2 * index);
    let calls = streams.flat_map(|stream| {
        [
            call_headers(stream, HEARTBEAT, 0),
            message(stream, &[], 0),
            cancel(stream),
        ]
        .concat()
    });
    calls.collect()
}

#[test]
fn rapid_reset_ends_each_connection() {
    let mut arena = Arena::start();
    let lines = |arena: &Arena| arena.broker.log().lines().count();
    let before = lines(&arena);
    let address = arena.address();
    let start = Instant::now();
    let attackers = [(); 2].map(|()| {
        let attacker = Arc::<Attacker>::default();
        let thread = std::thread::spawn({
            let attacker = attacker.clone();
            move || attacker.reset_rapidly(address)
        });
        (attacker, thread)
    });
    arena.hold(HOLD);
    wait_until_blocking("the broker has ended a connection of each attacker", || {
        let mut ended = attackers
            .iter()
            .map(|(attacker, _)| attacker.ended.load(Ordering::Relaxed));
        ended.all(|ended| ended > 0)
    });
    let mut sent = 0;
    for (attacker, thread) in attackers {
        attacker.stop.store(true, Ordering::Relaxed);
        thread.join().expect("the attacker ends");
        sent += attacker.sent.load(Ordering::Relaxed);
    }
    let logged = lines(&arena) - before;
    let seconds = usize::try_from(start.elapsed().as_secs()).expect("a short time") + 1;
    let effect = arena.end("rapid reset, 2 connections", sent);
    effect.bystander_unharmed().memory_below(40);
    // At most 100 lines per second.
    assert!(logged <= 100 * seconds, "{logged} lines in {seconds} s");
}
