//! The task that forgets Enqueue requests whose time has passed. A broker runs one for all queues, beside the reapers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::store::{Store, StoreError};

/// The time between two runs.
const INTERVAL: Duration = Duration::from_secs(60);
/// The maximum number of requests that one transaction deletes.
const STEP_REQUESTS: usize = 500;
/// The rest after a step is this many times as long as the step took.
const REST_FACTOR: u32 = 4;

/// Runs the task until `stop` is cancelled.
pub(super) async fn run(store: Arc<dyn Store>, stop: CancellationToken) {
    stop.run_until_cancelled(async {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = forget(&*store).await {
                let bug = matches!(error, StoreError::Bug(_));
                tracing::warn!(%error, bug, "old request ids were not deleted; trying again later");
            }
        }
    })
    .await;
}

/// Deletes all requests whose time has passed, in small steps.
async fn forget(store: &dyn Store) -> Result<(), StoreError> {
    loop {
        let start = Instant::now();
        if store.forget_requests(STEP_REQUESTS).await? == 0 {
            return Ok(());
        }
        tokio::time::sleep(start.elapsed() * REST_FACTOR).await;
    }
}
