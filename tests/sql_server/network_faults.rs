//! Injects network faults of every kind, one after the other.

use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::harness::proxy::{Direction, Proxy};

/// The time for which faults are injected.
const DURATION: Duration = Duration::from_secs(10);

/// Injects faults through the proxy at random times, and removes all faults at the end.
pub(crate) async fn inject_faults(proxy: &Proxy, mut random: StdRng) {
    let end = Instant::now() + DURATION;
    let mut millis = |min: u64, max: u64| Duration::from_millis(random.random_range(min..max));
    let mut fault = 0;
    while Instant::now() < end {
        tokio::time::sleep(millis(200, 900)).await;
        match fault % 7 {
            0 | 3 => proxy.cut(),
            // Loses replies to statements that the server has already run.
            1 => {
                proxy.stall(Direction::ToClient, true);
                tokio::time::sleep(millis(20, 200)).await;
                proxy.cut_and_restore();
            }
            2 => {
                proxy.stall(Direction::ToServer, true);
                tokio::time::sleep(millis(20, 700)).await;
                proxy.restore();
            }
            4 => {
                proxy.refuse(true);
                proxy.cut();
                tokio::time::sleep(millis(50, 400)).await;
                proxy.restore();
            }
            // Cuts a connection during its login or shortly after.
            5 => {
                let bytes = usize::try_from(millis(1, 8_000).as_millis()).ok();
                proxy.cut_after(Direction::ToClient, bytes);
                proxy.cut();
                tokio::time::sleep(millis(100, 500)).await;
                proxy.restore();
            }
            _ => {
                proxy.delay(millis(1, 20));
                tokio::time::sleep(millis(100, 500)).await;
                proxy.restore();
            }
        }
        fault += 1;
    }
    proxy.restore();
}
