//! A network in trouble of every kind, one after the other.

use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::proxy::{Proxy, Way};

/// How long it lasts.
const STORM: Duration = Duration::from_secs(10);

/// Makes trouble, and leaves the network as it should be.
pub(crate) async fn storm(proxy: &Proxy, mut random: StdRng) {
    let end = Instant::now() + STORM;
    let mut moment =
        |least: u64, most: u64| Duration::from_millis(random.random_range(least..most));
    let mut trouble = 0;
    while Instant::now() < end {
        tokio::time::sleep(moment(200, 900)).await;
        match trouble % 7 {
            0 | 3 => proxy.cut(),
            // The replies to what the server has done already.
            1 => {
                proxy.stall(Way::ToClient, true);
                tokio::time::sleep(moment(20, 200)).await;
                proxy.clear_up_after_cut();
            }
            2 => {
                proxy.stall(Way::ToServer, true);
                tokio::time::sleep(moment(20, 700)).await;
                proxy.clear_up();
            }
            4 => {
                proxy.refuse(true);
                proxy.cut();
                tokio::time::sleep(moment(50, 400)).await;
                proxy.clear_up();
            }
            // In the middle of a login, or a little later.
            5 => {
                let bytes = usize::try_from(moment(1, 8_000).as_millis()).ok();
                proxy.cut_after(Way::ToClient, bytes);
                proxy.cut();
                tokio::time::sleep(moment(100, 500)).await;
                proxy.clear_up();
            }
            _ => {
                proxy.delay(moment(1, 20));
                tokio::time::sleep(moment(100, 500)).await;
                proxy.clear_up();
            }
        }
        trouble += 1;
    }
    proxy.clear_up();
}
