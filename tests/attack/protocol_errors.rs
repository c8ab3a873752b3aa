//! Frames that HTTP/2 forbids, or that carry nothing.

use super::goaway::{self, send_until_closed};
use crate::support::frames::{
    DATA, END_STREAM, HEARTBEAT, PADDED, PRIORITY, call_headers, frame, message, window_update,
};

/// Opens a call, sends one frame again and again, and expects a GOAWAY with this code.
fn expect_goaway(name: &str, start: &[u8], one: &[u8], code: u32) {
    goaway::expect_goaway(name, &[code], |connection| {
        connection.send(start).expect("sent");
        send_until_closed(connection, &one.repeat(200));
    });
}

#[test]
fn empty_data_frames_end_the_connection() {
    let start = call_headers(1, HEARTBEAT, 0);
    expect_goaway("empty DATA frames", &start, &frame(DATA, 0, 1, &[]), 11);
}

#[test]
fn data_frames_of_padding_end_the_connection() {
    let start = call_headers(1, HEARTBEAT, 0);
    expect_goaway(
        "DATA frames of padding",
        &start,
        &frame(DATA, PADDED, 1, &[0]),
        11,
    );
}

#[test]
fn data_after_the_end_of_a_stream_ends_the_connection() {
    let start = [call_headers(1, HEARTBEAT, 0), message(1, &[], END_STREAM)].concat();
    // PROTOCOL_ERROR, or ENHANCE_YOUR_CALM if the broker has just reset the stream: it ignores the frames then, and counts them.
    goaway::expect_goaway("DATA after END_STREAM", &[1, 11], |connection| {
        connection.send(&start).expect("sent");
        send_until_closed(connection, &message(1, &[], 0).repeat(200));
    });
}

#[test]
fn window_update_of_nothing_ends_the_connection() {
    expect_goaway("WINDOW_UPDATE of 0", &[], &window_update(0, 0), 1);
}

#[test]
fn short_priority_frame_ends_the_connection() {
    expect_goaway(
        "PRIORITY of 3 bytes",
        &[],
        &frame(PRIORITY, 0, 1, &[0; 3]),
        1,
    );
}
