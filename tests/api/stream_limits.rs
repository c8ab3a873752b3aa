//! Limits of the streams of one connection, tested with raw HTTP/2 frames.

use crate::support::frames::{DATA, HEARTBEAT, call_headers, frame, window_update};
use crate::support::raw_connection::{RawConnection, blocking};
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::TEST_TIMEOUT;

#[tokio::test]
async fn settings_announce_the_stream_limit() {
    let server = Server::with_config(&format!("[server]\nmax_streams = 7\n{QUEUE}")).await;
    let connection = RawConnection::open(server.address);
    let wait = move || connection.wait(TEST_TIMEOUT, |received| received.settings.is_some());
    let (received, _) = blocking(wait).await;
    let settings = received.settings.expect("the server sends its settings");
    let entries: Vec<&[u8]> = settings.chunks(6).collect();
    assert!(entries.contains(&&[0, 3, 0, 0, 0, 7][..]), "{entries:?}");
}

#[tokio::test]
async fn stream_errors_close_the_connection() {
    const ENHANCE_YOUR_CALM: u32 = 11;
    let server = Server::start().await;
    let mut connection = RawConnection::open(server.address);
    let goaway = blocking(move || {
        // One more than the limit. If the broker closed the connection before it has read all, the GOAWAY could be lost.
        for call in 0..=1_024 {
            let stream = 2 * call + 1;
            let mut frames = call_headers(stream, HEARTBEAT, 0);
            frames.extend(frame(DATA, 0, stream, &[0; 5]));
            // The update overflows the window of the stream, which is an error of the stream alone.
            frames.extend(window_update(stream, 0x7fff_ffff));
            connection.send(&frames).expect("sent");
        }
        connection.goaway()
    })
    .await;
    assert_eq!(goaway.0, ENHANCE_YOUR_CALM, "{goaway:?}");
}
