//! The task that forgets Enqueue requests whose time has passed. A broker runs one for all queues, beside the reapers.

use std::sync::Arc;
use std::time::Duration;

use lease_broker_store::{StoreError, Upkeep};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::store_health::StoreHealth;

/// The time between two runs.
const INTERVAL: Duration = Duration::from_secs(60);
/// The maximum number of requests that one transaction deletes.
const STEP_REQUESTS: usize = 500;
/// The rest after a step is this many times as long as the step took.
const REST_FACTOR: u32 = 4;

/// Runs the task until `stop` is cancelled.
pub(super) async fn run(store: Arc<dyn Upkeep>, health: Arc<StoreHealth>, stop: CancellationToken) {
    stop.run_until_cancelled(async {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = forget(&*store, &health).await {
                let bug = matches!(error, StoreError::Bug(_));
                tracing::warn!(%error, bug, "old request ids were not deleted; trying again later");
            }
        }
    })
    .await;
}

/// Deletes all requests whose time has passed, in small steps.
async fn forget(store: &dyn Upkeep, health: &StoreHealth) -> Result<(), StoreError> {
    loop {
        let start = Instant::now();
        let forgotten = health.fail_fast(store.forget_requests(STEP_REQUESTS));
        if forgotten.await? == 0 {
            return Ok(());
        }
        tokio::time::sleep(start.elapsed() * REST_FACTOR).await;
    }
}
