//! A producer: enqueues items before the workers start, and keeps the backlog filled while they work.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::client::{GrpcClient, WorkerId};
use super::latency::Rpc;
use super::result::Result;
use super::run_state::RunState;

/// The most items that one Enqueue call accepts.
const MAX_ITEMS_PER_CALL: u64 = 1_000;
const BACKLOG_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// One producer.
pub(super) struct Producer {
    pub(super) api: GrpcClient,
    pub(super) id: WorkerId,
    pub(super) state: Arc<RunState>,
}

impl Producer {
    /// Enqueues this number of items.
    pub(super) async fn fill(mut self, mut items: u64) -> Result<()> {
        while items > 0 && !self.state.stop.is_cancelled() {
            let count = items.min(MAX_ITEMS_PER_CALL);
            self.enqueue(count).await?;
            items -= count;
        }
        Ok(())
    }

    /// Enqueues items whenever the queue's backlog is below this number, until the run ends.
    pub(super) async fn keep_filled(mut self, backlog: u64) -> Result<()> {
        // Waits until a quarter of the backlog is missing, or a full call, so that there are few large calls. The
        // other three quarters last until the call returns.
        let min_items = (backlog / 4).clamp(1, MAX_ITEMS_PER_CALL);
        let stop = self.state.stop.clone();
        while !stop.is_cancelled() {
            let missing = backlog.saturating_sub(self.state.ledger.backlog(self.id.queue));
            if missing >= min_items {
                self.enqueue(missing.min(MAX_ITEMS_PER_CALL)).await?;
            } else {
                let sleep = tokio::time::sleep(BACKLOG_CHECK_INTERVAL);
                stop.run_until_cancelled(sleep).await;
            }
        }
        Ok(())
    }

    async fn enqueue(&mut self, items: u64) -> Result<()> {
        let start = Instant::now();
        let items = usize::try_from(items).unwrap_or(0);
        let keys = self.api.enqueue(items).await?;
        self.state.record_call(Rpc::Enqueue, start);
        self.state.ledger.record_enqueued(self.id.queue, keys);
        Ok(())
    }
}
