//! Floods of frames that are cheap to send.

use std::time::Duration;

use super::arena::Arena;
use crate::support::frames::{ACK, PING, PREFACE, PRIORITY, SETTINGS, frame, settings};
use crate::support::raw_connection::RawConnection;

/// The length of a flood.
const FLOOD: Duration = Duration::from_secs(2);
/// The number of frames in one write.
const BURST: usize = 500;

/// Sends frames of one kind for [`FLOOD`], and returns the number of bytes sent.
fn flood(arena: &Arena, one: &[u8]) -> u64 {
    let mut connection = RawConnection::open(arena.address());
    connection.flood(&one.repeat(BURST), FLOOD);
    connection.sent()
}

#[test]
fn ping_flood_harms_nobody() {
    let mut arena = Arena::start();
    let sent = flood(&arena, &frame(PING, 0, 0, &[7; 8]));
    arena
        .end("PING flood", sent)
        .bystander_unharmed()
        .memory_below(30);
}

#[test]
fn settings_flood_harms_nobody() {
    let mut arena = Arena::start();
    let sent = flood(&arena, &frame(SETTINGS, 0, 0, &[]));
    arena
        .end("SETTINGS flood", sent)
        .bystander_unharmed()
        .memory_below(30);
}

#[test]
fn broker_stops_reading_if_its_answers_are_unread() {
    for (name, kind, payload) in [
        ("PING flood, answers unread", PING, &[7; 8][..]),
        ("SETTINGS flood, answers unread", SETTINGS, &[]),
    ] {
        let mut arena = Arena::start();
        let mut connection = RawConnection::unread(arena.address());
        connection
            .send(&[PREFACE, &settings(&[])].concat())
            .expect("the preface is sent");
        let burst = frame(kind, 0, 0, payload).repeat(BURST);
        // The write fails after two seconds in which the broker reads nothing.
        let stalled = (0..100_000).any(|_| connection.try_send(&burst).is_err());
        let effect = arena.end(name, connection.sent());
        assert!(stalled, "the broker read {} bytes", connection.sent());
        effect.bystander_unharmed().memory_below(30);
    }
}

#[test]
fn unasked_ping_answers_harm_nobody_and_log_nothing() {
    let mut arena = Arena::start();
    let before = arena.log_bytes();
    let sent = flood(&arena, &frame(PING, ACK, 0, &[7; 8]));
    let effect = arena.end("PING ACK flood", sent);
    effect.bystander_unharmed().memory_below(30);
    assert_eq!(arena.log_bytes(), before, "{}", arena.broker.log());
}

#[test]
fn priority_flood_harms_nobody() {
    let mut arena = Arena::start();
    let sent = flood(&arena, &frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9]));
    arena
        .end("PRIORITY flood", sent)
        .bystander_unharmed()
        .memory_below(30);
}

#[test]
fn flood_of_unknown_frames_harms_nobody() {
    let mut arena = Arena::start();
    let sent = flood(&arena, &frame(0xbe, 0, 0, &[1; 100]));
    arena
        .end("frames of an unknown type", sent)
        .bystander_unharmed()
        .memory_below(30);
}
