//! The producers: enqueue items before the workers start, and keep the backlog filled while they work.

use std::time::Duration;

use crate::client::Client;
use crate::result::Result;

/// The most items that one Enqueue call accepts.
const MAX_ITEMS_PER_CALL: u64 = 1_000;
const BACKLOG_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Enqueues this number of items.
pub(crate) async fn fill(mut client: Client, mut items: u64) -> Result<()> {
    while items > 0 && !client.state.stop.is_cancelled() {
        let count = items.min(MAX_ITEMS_PER_CALL);
        client.enqueue(count).await?;
        items -= count;
    }
    Ok(())
}

/// Enqueues items whenever the queue's backlog is below this number, until the run ends.
pub(crate) async fn keep_filled(mut client: Client, backlog: u64) -> Result<()> {
    // Waits until a quarter of the backlog is missing, or a full call, so that there are few large calls. The other
    // three quarters last until the call returns.
    let min_items = (backlog / 4).clamp(1, MAX_ITEMS_PER_CALL);
    let stop = client.state.stop.clone();
    while !stop.is_cancelled() {
        let missing = backlog.saturating_sub(client.backlog());
        if missing >= min_items {
            client.enqueue(missing.min(MAX_ITEMS_PER_CALL)).await?;
        } else {
            let sleep = tokio::time::sleep(BACKLOG_CHECK_INTERVAL);
            stop.run_until_cancelled(sleep).await;
        }
    }
    Ok(())
}
