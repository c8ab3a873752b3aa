//! Header lists that do not end, or that are much larger than the bytes that stand for them.

use super::arena::Arena;
use super::goaway::{expect_goaway, send_until_closed};
use crate::support::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, HEARTBEAT, call_block, frame, indexed_literal,
    literal,
};
use crate::support::raw_connection::RawConnection;

/// The error code `ENHANCE_YOUR_CALM`.
const CALM: u32 = 11;

/// Sends a HEADERS frame without an end, then one CONTINUATION frame again and again. Expects a GOAWAY.
fn continuation_flood(name: &str, payload: &[u8]) {
    expect_goaway(name, &[CALM], |connection| {
        let start = frame(HEADERS, END_STREAM, 1, &call_block(HEARTBEAT, &[]));
        connection.send(&start).expect("sent");
        let burst = frame(CONTINUATION, 0, 1, payload).repeat(50);
        send_until_closed(connection, &burst);
    });
}

#[test]
fn continuation_flood_ends_the_connection() {
    continuation_flood("CONTINUATION flood", &literal(b"x-more", &[b'a'; 1_000]));
}

#[test]
fn empty_continuation_flood_ends_the_connection() {
    continuation_flood("CONTINUATION flood, empty", &[]);
}

#[test]
fn references_to_a_large_header_end_the_connection() {
    let mut block = call_block(HEARTBEAT, &[]);
    block.extend(indexed_literal(b"x-bomb", &[b'a'; 3_800]));
    // Index 0x3e is the first entry of the table of this connection.
    block.extend([0x80 | 0x3e; 11_000]);
    let headers = frame(HEADERS, END_HEADERS | END_STREAM, 1, &block);
    expect_goaway("HPACK bomb", &[CALM], |connection| {
        connection.send(&headers).expect("sent");
    });
}

/// The broker answers each of these calls with the HTTP status 431, and decodes no header over the limit.
#[test]
fn header_lists_over_the_limit_end_each_connection() {
    let mut arena = Arena::start();
    let mut sent = 0;
    for _ in 0..10 {
        let mut connection = RawConnection::open(arena.address());
        for call in 0..1_000 {
            let stream = 2 * call + 1;
            let start = frame(HEADERS, END_STREAM, stream, &call_block(HEARTBEAT, &[]));
            let more = frame(
                CONTINUATION,
                0,
                stream,
                &literal(b"x-more", &[b'a'; 16_000]),
            );
            let last = frame(CONTINUATION, END_HEADERS, stream, &[]);
            let headers = [start, more.repeat(4), last].concat();
            if connection.try_send(&headers).is_err() {
                break;
            }
        }
        sent += connection.sent();
        connection.goaway();
        let refused = connection.received().count(HEADERS);
        assert!((1..=100).contains(&refused), "{refused} refused");
    }
    let effect = arena.end("64 KB of headers for each call", sent);
    effect.bystander_unharmed().memory_below(40);
}
