//! A proxy that other test targets may work through.

use std::io::Read as _;
use std::time::Duration;

use rand::RngExt as _;
use tokio::time::Instant;

use crate::program::server;
use crate::proxy::{Proxy, Way};
use crate::skipped::skipped;

/// How long it lasts at the most.
const HOURS: Duration = Duration::from_secs(4 * 3_600);

/// Serves on the port that `LEASE_BROKER_TEST_PROXY` names until standard input ends. One connection in 200 is cut in its
/// middle, and now and then everything stands still for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for use by hand: tests/README.md says how"]
async fn proxy_for_other_tests() {
    let port = std::env::var("LEASE_BROKER_TEST_PROXY").ok();
    let Some(port) = port.and_then(|port| port.parse().ok()) else {
        skipped("proxy_for_other_tests: LEASE_BROKER_TEST_PROXY names no port");
        return;
    };
    let proxy = Proxy::on_port(port, &server()).await;
    eprintln!("passing on what comes to port {}", proxy.port());
    let input = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let end = Instant::now() + HOURS;
    while !input.is_finished() && Instant::now() < end {
        // Those that are opened while this lasts end after some packets.
        let doomed = rand::rng().random_bool(1.0 / 200.0);
        let bytes = doomed.then(|| rand::rng().random_range(6_000..60_000));
        proxy.cut_after(Way::ToClient, bytes);
        let next = proxy.accepted() + 1;
        if rand::rng().random_bool(0.01) {
            proxy.stall(Way::ToClient, true);
            let moment = rand::rng().random_range(10..500);
            tokio::time::sleep(Duration::from_millis(moment)).await;
            proxy.stall(Way::ToClient, false);
        }
        // A new choice for each connection.
        let waiting = Instant::now();
        while proxy.accepted() < next && waiting.elapsed() < Duration::from_secs(1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let (accepted, open) = (proxy.accepted(), proxy.open());
    eprintln!("{accepted} connections were opened, {open} are open");
}
