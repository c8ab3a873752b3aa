//! Ends expired leases and wakes delayed items, one task a queue in every broker, woken by the next due time.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::wakeups::Wakeups;
use crate::config;
use crate::store::{QueueIndex, Reaped, Store, StoreError};

/// The shortest pause between two runs: leases that expire in a row are ended together.
const SHORTEST_SLEEP: Duration = Duration::from_millis(20);

/// What a reaper works on.
pub(super) struct Reaper {
    pub(super) store: Arc<dyn Store>,
    pub(super) queue: QueueIndex,
    pub(super) name: String,
    pub(super) settings: config::Reaper,
    pub(super) signals: Arc<Wakeups>,
}

impl Reaper {
    /// Reaps until `stop` is cancelled.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut answers = true;
        while !stop.is_cancelled() {
            // Set before the store is asked: a lease given meanwhile may bring it forward.
            self.signals.due.set(self.settings.max_sleep);
            match self.store.reap(self.queue, self.settings.batch).await {
                Ok(reaped) => {
                    answers = true;
                    let found = reaped.expired.len() + reaped.promoted;
                    self.report(&reaped);
                    if found >= self.settings.batch {
                        continue;
                    }
                    if let Some(next) = reaped.next_due {
                        // The store counts whole milliseconds: a moment late finds it due, a moment early does not.
                        let next = next + Duration::from_millis(1);
                        self.signals.due.no_later_than(next.max(SHORTEST_SLEEP));
                    }
                }
                Err(error) => {
                    // Said once, and not at every run until the store is back.
                    if std::mem::replace(&mut answers, false) {
                        let queue = &self.name;
                        let bug = matches!(error, StoreError::Bug(_));
                        tracing::error!(queue, %error, bug, "the reaper can't run; it goes on trying");
                    }
                }
            }
            tokio::select! {
                () = self.signals.due.ring() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    fn report(&self, reaped: &Reaped) {
        let queue = &self.name;
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
            self.signals.ready.notify_one();
        }
    }
}
