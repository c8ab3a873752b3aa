//! The reaper of one queue: a task that ends expired leases and makes delayed items ready when they are due.
//!
//! Every broker runs one per queue. The store makes sure that reapers of several brokers do not disturb each other. The
//! task sleeps until the next due time that it knows of, and at most `reaper.max_interval`, because other brokers lease
//! and delay items too.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::wakeups::Wakeups;
use crate::config;
use crate::store::{QueueIndex, Reaped, Store, StoreError};

/// The shortest sleep between two runs. Leases that expire one shortly after the other are then ended together.
const MIN_SLEEP: Duration = Duration::from_millis(20);

/// The state of a reaper's task.
pub(super) struct Reaper {
    pub(super) store: Arc<dyn Store>,
    pub(super) queue: QueueIndex,
    /// The queue's name, for the log.
    pub(super) queue_name: String,
    pub(super) config: config::Reaper,
    pub(super) wakeups: Arc<Wakeups>,
}

impl Reaper {
    /// Runs the reaper until `stop` is cancelled.
    pub(super) async fn run(self, stop: CancellationToken) {
        let timer = &self.wakeups.reaper_timer;
        let mut last_run_failed = false;
        while !stop.is_cancelled() {
            // The timer is set before the store is asked. Otherwise this would overwrite the due time of a lease that
            // is given in between.
            timer.set(self.config.max_interval);
            match self.store.reap(self.queue, self.config.max_rows).await {
                Ok(reaped) => {
                    last_run_failed = false;
                    let count = reaped.expired.len() + reaped.promoted;
                    self.report(&reaped);
                    if count >= self.config.max_rows {
                        // More items may be due: run again without sleeping.
                        continue;
                    }
                    if let Some(next_due) = reaped.next_due {
                        // The store rounds to whole milliseconds. A run that is 1 ms late finds the item due, and a run
                        // that is early does not.
                        let next_due = next_due + Duration::from_millis(1);
                        timer.advance_to(next_due.max(MIN_SLEEP));
                    }
                }
                Err(error) => {
                    // Logged at the first failure only. Otherwise every run would log until the store recovers.
                    if !std::mem::replace(&mut last_run_failed, true) {
                        let queue = &self.queue_name;
                        let bug = matches!(error, StoreError::Bug(_));
                        tracing::error!(queue, %error, bug, "reaper failed and will try again");
                    }
                }
            }
            tokio::select! {
                () = timer.wait() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Logs what the run changed, and wakes the claim dispatcher if items have become ready.
    fn report(&self, reaped: &Reaped) {
        let queue = &self.queue_name;
        for expired in &reaped.expired {
            tracing::info!(
                queue,
                key = %expired.lease.key,
                attempt = expired.lease.attempt,
                fence = expired.lease.fence,
                worker = expired.owner,
                state = expired.state.name(),
                "lease expired"
            );
        }
        if reaped.promoted > 0 {
            tracing::debug!(queue, items = reaped.promoted, "delayed items are ready");
        }
        if !reaped.expired.is_empty() || reaped.promoted > 0 {
            self.wakeups.items_ready.notify_one();
        }
    }
}
