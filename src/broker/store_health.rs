//! Health of the store, as the broker sees it.
//!
//! While operations succeed, no probe is sent. When an operation fails because the store is unavailable, or takes more
//! than [`SLOW_OPERATION`], a background task probes the store every [`PROBE_INTERVAL`] until a probe succeeds. A probe
//! proves that the store can read and write.
//!
//! The store becomes unhealthy when a probe fails or takes longer than [`PROBE_TIMEOUT`], and healthy when one
//! succeeds. While it is unhealthy, operations fail at once. Otherwise every call would wait for a timeout of its own.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use lease_broker_store::{Leases, StoreError, Upkeep};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Time between a failed probe and the next one.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// A probe that takes longer than this makes the store unhealthy.
const PROBE_TIMEOUT: Duration = Duration::from_secs(4);
/// The time in which an operation that the store has not begun reports that it was withdrawn.
const WITHDRAWAL_TIMEOUT: Duration = Duration::from_millis(100);
/// An operation that runs this long triggers a probe.
const SLOW_OPERATION: Duration = Duration::from_secs(3);

/// Tracks whether the store is healthy.
pub(super) struct StoreHealth {
    /// Wakes the task that probes.
    probe_wanted: Notify,
    healthy: watch::Sender<bool>,
    /// The time of the last change of `healthy`.
    since: Mutex<SystemTime>,
}

impl StoreHealth {
    /// Creates the health of a store that is healthy until a probe fails.
    pub(super) fn new() -> Self {
        Self {
            probe_wanted: Notify::new(),
            healthy: watch::Sender::new(true),
            since: Mutex::new(SystemTime::now()),
        }
    }

    /// Runs a store operation, and fails at once while the store is unhealthy.
    ///
    /// If the store becomes unhealthy, operations that it has not begun are withdrawn. The others fail too, and the store may
    /// still apply them.
    pub(super) async fn fail_fast<T>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let problem = || {
            let interval = humantime::format_duration(PROBE_INTERVAL);
            format!(
                "the last health probe failed or timed out; the broker probes again every {interval}"
            )
        };
        let mut healthy = self.healthy.subscribe();
        if !*healthy.borrow() {
            return Err(StoreError::not_begun(problem()));
        }
        let unhealthy = async {
            // The error of a dropped sender cannot occur: `self` owns the sender.
            let _ = healthy.wait_for(|healthy| !healthy).await;
        };
        let slow = async {
            tokio::time::sleep(SLOW_OPERATION).await;
            self.probe_wanted.notify_one();
            std::future::pending().await
        };
        let mut operation = pin!(operation);
        tokio::select! {
            biased;
            () = unhealthy => {
                let withdrawn = tokio::time::timeout(WITHDRAWAL_TIMEOUT, operation).await;
                withdrawn.unwrap_or_else(|_| Err(StoreError::unavailable(problem())))
            }
            outcome = &mut operation => {
                if let Err(StoreError::Unavailable(_) | StoreError::Io(_)) = outcome {
                    self.probe_wanted.notify_one();
                }
                outcome
            }
            never = slow => never,
        }
    }

    /// Returns a receiver of the store's health: true while the store is healthy.
    pub(super) fn subscribe(&self) -> watch::Receiver<bool> {
        self.healthy.subscribe()
    }

    /// Returns the time since when the store has its present health.
    pub(super) fn since(&self) -> SystemTime {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Probes the store whenever an operation asks for it, until `stop` is cancelled.
    pub(super) async fn probe_until_stopped(
        self: Arc<Self>,
        store: Arc<dyn Upkeep>,
        leases: Arc<dyn Leases>,
        stop: CancellationToken,
    ) {
        let probes = async {
            loop {
                self.probe_wanted.notified().await;
                // An operation can report its failure after the store has recovered, so one successful probe is enough.
                while !self.probe(&*store, &*leases).await {
                    tokio::time::sleep(PROBE_INTERVAL).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = probes => {}
        }
    }

    /// Probes the store once, updates its health, and returns whether the probe succeeded.
    ///
    /// A probe that exceeds [`PROBE_TIMEOUT`] makes the store unhealthy and goes on. A new probe in its place would
    /// have to start again with a connection and a login.
    async fn probe(&self, store: &dyn Upkeep, leases: &dyn Leases) -> bool {
        let mut probe = store.probe();
        let in_time = tokio::time::timeout(PROBE_TIMEOUT, &mut probe).await;
        let outcome = if let Ok(outcome) = in_time {
            outcome
        } else {
            leases.withdraw_waiting();
            self.set_healthy(false);
            probe.await
        };
        if outcome.is_err() {
            leases.withdraw_waiting();
        }
        self.set_healthy(outcome.is_ok());
        outcome.is_ok()
    }

    /// Sets the health, and logs it if it has changed.
    fn set_healthy(&self, healthy: bool) {
        let replace = |known: &mut bool| std::mem::replace(known, healthy) != healthy;
        if !self.healthy.send_if_modified(replace) {
            return;
        }
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = SystemTime::now();
        if healthy {
            tracing::info!("store is healthy");
        } else {
            tracing::error!("store is unhealthy");
        }
    }
}
