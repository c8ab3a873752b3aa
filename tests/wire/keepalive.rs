//! TCP keepalive of the broker's connections.

use std::net::SocketAddr;
use std::process::Command;

use crate::support::skipped::skipped;
use crate::wire::fixture::Fixture;

/// Returns the lines of `ss` for the connections to this address, seen from the broker, with their timers.
fn timers(server: SocketAddr) -> Option<String> {
    let filter = format!("dst {server}");
    let output = Command::new("ss").args(["-tnoH", &filter]).output().ok()?;
    String::from_utf8(output.stdout).ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_have_tcp_keepalive() {
    let fixture = Fixture::start().await;
    let Some(timers) = timers(fixture.server.address) else {
        skipped("this machine has no ss, which shows the timers of connections");
        return;
    };
    let lines: Vec<&str> = timers.lines().collect();
    // One connection for the operations, and the one of the health check.
    assert_eq!(lines.len(), 2, "{timers}");
    for line in lines {
        assert!(line.contains("timer:(keepalive,"), "{timers}");
    }
}
