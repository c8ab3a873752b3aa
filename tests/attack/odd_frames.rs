//! Frames that a client never sends: wrong directions, wrong numbers, wrong sizes.

use super::arena::Arena;
use super::goaway;
use crate::support::frames::{
    END_HEADERS, END_STREAM, HEADERS, HEARTBEAT, RST_STREAM, SETTINGS, call_block, call_headers,
    cancel, frame, literal, message, settings, window_update,
};
use crate::support::raw_connection::RawConnection;

/// The type of a frame with which a server announces a stream.
const PUSH_PROMISE: u8 = 5;

/// Sends these frames and expects a GOAWAY with this code.
fn expect_goaway(name: &str, frames: &[u8], code: u32) {
    goaway::expect_goaway(name, &[code], |connection| {
        connection.send(frames).expect("sent");
    });
}

#[test]
fn stream_of_the_server_ends_the_connection() {
    let even = call_headers(2, HEARTBEAT, END_STREAM);
    expect_goaway("HEADERS on an even stream", &even, 1);
}

#[test]
fn push_from_a_client_ends_the_connection() {
    let push = frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]);
    let frames = [call_headers(1, HEARTBEAT, 0), push].concat();
    expect_goaway("PUSH_PROMISE", &frames, 1);
}

#[test]
fn frame_over_the_maximum_size_ends_the_connection() {
    // The payload is announced and never sent.
    let head = [0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1];
    let frames = [call_headers(1, HEARTBEAT, 0), head.to_vec()].concat();
    expect_goaway("DATA of 16 MiB announced", &frames, 6);
}

#[test]
fn window_of_an_idle_stream_ends_the_connection() {
    expect_goaway("WINDOW_UPDATE, idle stream", &window_update(7, 1), 1);
}

#[test]
fn reset_of_an_idle_stream_ends_the_connection() {
    expect_goaway("RST_STREAM, idle stream", &cancel(7), 1);
}

#[test]
fn invalid_setting_ends_the_connection() {
    // The smallest valid maximum size of a frame is 16384.
    expect_goaway("SETTINGS_MAX_FRAME_SIZE of 1", &settings(&[(5, 1)]), 1);
}

#[test]
fn settings_of_a_wrong_length_end_the_connection() {
    expect_goaway("SETTINGS of 5 bytes", &frame(SETTINGS, 0, 0, &[0; 5]), 1);
}

#[test]
fn reset_of_a_wrong_length_ends_the_connection() {
    let frames = [
        call_headers(1, HEARTBEAT, 0),
        frame(RST_STREAM, 0, 1, &[0; 3]),
    ];
    expect_goaway("RST_STREAM of 3 bytes", &frames.concat(), 1);
}

/// Sends calls that HTTP/2 forbids, each on its own stream, and expects that an honest call on another connection works.
fn malformed_calls(name: &str, call: impl Fn(u32) -> Vec<u8>) {
    let mut arena = Arena::start();
    let mut sent = 0;
    for _ in 0..5 {
        let mut connection = RawConnection::open(arena.address());
        let calls: Vec<u8> = (0..200).flat_map(|index| call(2 * index + 1)).collect();
        // The broker may end the connection before all calls are sent.
        let _ = connection.try_send(&calls);
        sent += connection.sent();
    }
    arena.end(name, sent).bystander_unharmed().memory_below(40);
}

fn headers(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, block)
}

#[test]
fn line_break_in_a_path_harms_nobody() {
    malformed_calls("CR LF in the path", |stream| {
        headers(stream, &call_block("/a\r\nb: c", &[]))
    });
}

#[test]
fn connect_harms_nobody() {
    malformed_calls("CONNECT", |stream| {
        let method = literal(b":method", b"CONNECT");
        let authority = literal(b":authority", b"attack");
        headers(stream, &[method, authority].concat())
    });
}

#[test]
fn two_paths_harm_nobody() {
    malformed_calls("two :path headers", |stream| {
        headers(stream, &call_block(HEARTBEAT, &[(":path", "/other")]))
    });
}

#[test]
fn upper_case_header_harms_nobody() {
    malformed_calls("upper case header name", |stream| {
        headers(stream, &call_block(HEARTBEAT, &[("X-Upper", "1")]))
    });
}

#[test]
fn pseudo_header_in_trailers_harms_nobody() {
    malformed_calls("pseudo header in trailers", |stream| {
        [
            call_headers(stream, HEARTBEAT, 0),
            message(stream, &[], 0),
            headers(stream, &literal(b":status", b"200")),
        ]
        .concat()
    });
}

#[test]
fn wrong_content_length_harms_nobody() {
    malformed_calls("content-length of another body", |stream| {
        let block = call_block(HEARTBEAT, &[("content-length", "1000000000")]);
        [
            frame(HEADERS, END_HEADERS, stream, &block),
            message(stream, &[], END_STREAM),
        ]
        .concat()
    });
}
