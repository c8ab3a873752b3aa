//! A proxy that breaks connections, to run other test targets through it by hand.

use std::io::Read as _;
use std::time::Duration;

use rand::RngExt as _;
use tokio::time::Instant;

use crate::harness::program::server;
use crate::harness::proxy::{Direction, Proxy};
use crate::support::skipped::skipped;

/// The time after which the proxy ends at the latest.
const MAX_DURATION: Duration = Duration::from_secs(4 * 3_600);

/// Serves on the port in `LEASE_BROKER_TEST_PROXY` until standard input ends. Cuts one connection in 200 after some bytes,
/// and sometimes stalls all connections for up to half a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for use by hand, see tests/README.md"]
async fn proxy_for_other_tests() {
    let port = std::env::var("LEASE_BROKER_TEST_PROXY").ok();
    let Some(port) = port.and_then(|port| port.parse().ok()) else {
        skipped("LEASE_BROKER_TEST_PROXY is not a port number");
        return;
    };
    let proxy = Proxy::on_port(port, &server()).await;
    eprintln!("the proxy listens on port {}", proxy.port());
    let input = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let end = Instant::now() + MAX_DURATION;
    while !input.is_finished() && Instant::now() < end {
        // Applies to connections that are opened until the next iteration.
        let is_cut = rand::rng().random_bool(1.0 / 200.0);
        let bytes = is_cut.then(|| rand::rng().random_range(6_000..60_000));
        proxy.cut_after(Direction::ToClient, bytes);
        let next = proxy.accepted() + 1;
        if rand::rng().random_bool(0.01) {
            proxy.stall(Direction::ToClient, true);
            let millis = rand::rng().random_range(10..500);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            proxy.stall(Direction::ToClient, false);
        }
        // The next iteration starts with the next connection, or after one second.
        let waiting = Instant::now();
        while proxy.accepted() < next && waiting.elapsed() < Duration::from_secs(1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let (accepted, open) = (proxy.accepted(), proxy.open());
    eprintln!("{accepted} connections were opened, {open} are open");
}
