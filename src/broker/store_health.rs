//! Health of the store, as the broker sees it.
//!
//! While operations succeed, no probe is sent. When an operation fails because the store is unavailable, or takes more
//! than [`SLOW_OPERATION`], a background task probes the store every [`PROBE_INTERVAL`] until a probe succeeds. A probe
//! proves that the store can read and write.
//!
//! The store becomes unhealthy when a probe fails or takes longer than [`PROBE_TIMEOUT`], and healthy when one
//! succeeds. While it is unhealthy, operations fail at once. Otherwise every call would wait for a timeout of its own.
//!
//! The last failure is kept, so that operators see the cause: in the log, at the admin port, and in the errors of operations
//! that fail at once.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lease_broker_store::{Applied, Leases, Outage, OutageCause, StoreError, Upkeep};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::running_operations::RunningOperations;
use super::store_failures::{StoreFailure, StoreFailures};

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
    /// The time of the last change of `healthy`, by the clock and as a moment.
    since: Mutex<(SystemTime, Instant)>,
    failures: StoreFailures,
    running: RunningOperations,
}

/// The state of the store, as the broker sees it.
#[derive(Clone, Debug)]
pub struct StoreStatus {
    /// Whether it is healthy.
    pub up: bool,
    /// Since when it is so.
    pub since: SystemTime,
    /// The last failure. `None`: there was none since the start.
    pub last_failure: Option<StoreFailure>,
    /// The time for which the oldest operation has run. Zero: none runs.
    pub oldest_operation: Duration,
}

impl StoreHealth {
    /// Creates the health of a store that is healthy until a probe fails.
    pub(super) fn new() -> Self {
        Self {
            probe_wanted: Notify::new(),
            healthy: watch::Sender::new(true),
            since: Mutex::new((SystemTime::now(), Instant::now())),
            failures: StoreFailures::default(),
            running: RunningOperations::default(),
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
        let mut healthy = self.healthy.subscribe();
        if !*healthy.borrow() {
            return Err(self.unhealthy_error().not_applied());
        }
        let unhealthy = async {
            // The error of a dropped sender cannot occur: `self` owns the sender.
            let _ = healthy.wait_for(|healthy| !healthy).await;
        };
        let slow = async {
            tokio::time::sleep(SLOW_OPERATION).await;
            let time = humantime::format_duration(SLOW_OPERATION);
            tracing::warn!(%time, "store operation still runs; the store is probed");
            self.probe_wanted.notify_one();
            std::future::pending().await
        };
        let running = self.running.start();
        let mut operation = pin!(operation);
        tokio::select! {
            biased;
            () = unhealthy => {
                match tokio::time::timeout(WITHDRAWAL_TIMEOUT, operation).await {
                    // It was withdrawn, or got no connection. The probe knows why.
                    Ok(Err(error)) if is_silence(&error) && error.applied() == Applied::No => {
                        Err(self.unhealthy_error().not_applied())
                    }
                    Ok(outcome) => outcome,
                    Err(_) => {
                        running.abandon();
                        Err(self.unhealthy_error())
                    }
                }
            }
            outcome = &mut operation => {
                if let Err(error) = &outcome && self.failures.note(error) {
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

    /// Returns the state of the store.
    pub(super) fn status(&self) -> StoreStatus {
        let (since, _) = *self.since.lock();
        StoreStatus {
            up: *self.healthy.borrow(),
            since,
            last_failure: self.failures.last(),
            oldest_operation: self.running.oldest_age(),
        }
    }

    /// Returns the number of failures of a kind since the start.
    pub(super) fn failures(&self, cause: OutageCause) -> u64 {
        self.failures.count(cause)
    }

    /// Returns the error of an operation that is not run, or given up, because the store is unhealthy.
    fn unhealthy_error(&self) -> StoreError {
        let interval = humantime::format_duration(PROBE_INTERVAL);
        let last = self.failures.last();
        let reason = last.as_ref().map_or("", |failure| &failure.reason);
        StoreError::Unavailable(Outage {
            cause: last
                .as_ref()
                .map_or(OutageCause::Other, |failure| failure.cause),
            ..Outage::from(format!(
                "{reason}; the broker probes the store every {interval}"
            ))
        })
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
                while !self
                    .probe(
                        store.probe(),
                        || store.obstacle(),
                        || leases.withdraw_waiting(),
                    )
                    .await
                {
                    tokio::time::sleep(PROBE_INTERVAL).await;
                }
            }
        };
        stop.run_until_cancelled(probes).await;
    }

    /// Probes the store once, updates its health, and returns whether the probe succeeded.
    ///
    /// A probe that exceeds [`PROBE_TIMEOUT`] makes the store unhealthy and goes on. A new probe in its place would
    /// have to start again with a connection and a login.
    async fn probe(
        &self,
        probe: impl Future<Output = Result<(), StoreError>>,
        obstacle: impl Fn() -> Option<String>,
        withdraw_waiting: impl Fn(),
    ) -> bool {
        let _running = self.running.start();
        let mut probe = pin!(probe);
        // The health changes first, so that operations see that they are withdrawn because of it.
        let fail = |error: StoreError| {
            // During an outage, a probe without an answer tells less than the failure before it. A probe that was withdrawn
            // has none either.
            if *self.healthy.borrow() || !is_silence(&error) {
                self.failures.note_outage(&error);
            }
            self.set_healthy(false);
            withdraw_waiting();
        };
        let in_time = tokio::time::timeout(PROBE_TIMEOUT, &mut probe).await;
        let outcome = if let Ok(outcome) = in_time {
            outcome
        } else {
            let timeout = humantime::format_duration(PROBE_TIMEOUT);
            let problem = format!("a probe got no answer within {timeout}");
            fail(match obstacle() {
                Some(obstacle) => {
                    StoreError::outage(OutageCause::Busy, format!("{problem}; {obstacle}"))
                }
                None => StoreError::outage(OutageCause::NoAnswer, problem),
            });
            probe.await
        };
        match outcome {
            Ok(()) => {
                self.running.forget_abandoned();
                self.set_healthy(true);
                true
            }
            Err(error) => {
                fail(error);
                false
            }
        }
    }

    /// Sets the health, and logs it if it has changed.
    fn set_healthy(&self, healthy: bool) {
        let replace = |known: &mut bool| std::mem::replace(known, healthy) != healthy;
        if !self.healthy.send_if_modified(replace) {
            return;
        }
        let now = (SystemTime::now(), Instant::now());
        let mut since = self.since.lock();
        let (_, before) = std::mem::replace(&mut *since, now);
        drop(since);
        if healthy {
            let seconds = before.elapsed().as_secs();
            tracing::info!(after_seconds = seconds, "store is healthy");
        } else {
            let error = self
                .failures
                .last()
                .map_or(String::new(), |failure| failure.reason);
            let oldest = self.running.oldest_age().as_secs();
            tracing::error!(%error, oldest_operation_seconds = oldest, "store is unhealthy");
        }
    }
}

/// Returns whether the error says only that the store did not answer.
fn is_silence(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(outage) if outage.cause == OutageCause::NoAnswer)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::advance;

    use super::*;

    fn status(health: &StoreHealth) -> (bool, Option<OutageCause>, u64) {
        let status = health.status();
        let cause = status.last_failure.map(|failure| failure.cause);
        (status.up, cause, status.oldest_operation.as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn operation_that_hangs_is_seen_until_the_store_works() {
        let health = Arc::new(StoreHealth::new());
        let hanging = tokio::spawn({
            let health = health.clone();
            async move { health.fail_fast(pending::<Result<(), StoreError>>()).await }
        });
        tokio::task::yield_now().await;
        advance(Duration::from_secs(5)).await;
        assert_eq!(status(&health), (true, None, 5));
        let probe = health.probe(
            async {
                tokio::time::sleep(PROBE_TIMEOUT * 2).await;
                Ok(())
            },
            || None,
            || (),
        );
        let seen = async {
            let mut healthy = health.subscribe();
            let _ = healthy.wait_for(|healthy| !healthy).await;
            // Its caller gets the error, and the store still runs it.
            let error = hanging.await.expect("a task").expect_err("an outage");
            assert!(error.to_string().contains("no answer within 4s"), "{error}");
            let (up, cause, oldest) = status(&health);
            assert_eq!((up, cause), (false, Some(OutageCause::NoAnswer)));
            assert!(oldest >= 9, "{oldest}");
        };
        let (is_healthy, ()) = tokio::join!(probe, seen);
        assert!(is_healthy);
        assert_eq!(status(&health), (true, Some(OutageCause::NoAnswer), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn operations_that_fail_at_once_have_the_cause() {
        let health = StoreHealth::new();
        let full = || StoreError::outage(OutageCause::NoSpace, "no space on /dev/sdz");
        let failed = health.fail_fast(async { Err::<(), _>(full()) }).await;
        assert_eq!(failed, Err(full()));
        assert!(!health.probe(async { Err(full()) }, || None, || ()).await);
        let refused = health.fail_fast(pending::<Result<(), StoreError>>()).await;
        let Err(StoreError::Unavailable(refused)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(refused.cause, OutageCause::NoSpace);
        assert!(
            refused.reason.starts_with("no space on /dev/sdz; "),
            "{refused}"
        );
        assert_eq!(health.failures(OutageCause::NoSpace), 2);
        let silent = StoreError::not_begun(OutageCause::NoAnswer, "withdrawn");
        assert!(!health.probe(async { Err(silent) }, || None, || ()).await);
        let other = StoreError::Misconfigured("no table".to_owned());
        assert!(!health.failures.note(&other));
        assert_eq!(status(&health), (false, Some(OutageCause::NoSpace), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn operation_that_is_withdrawn_has_the_cause() {
        let health = StoreHealth::new();
        let refused = StoreError::outage(OutageCause::Login, "password refused");
        let withdrawn = async {
            let mut healthy = health.subscribe();
            let _ = healthy.wait_for(|healthy| !healthy).await;
            let silent = StoreError::not_begun(OutageCause::NoAnswer, "withdrawn");
            Err::<(), _>(silent)
        };
        let probe = health.probe(async { Err(refused) }, || None, || ());
        let (error, _) = tokio::join!(health.fail_fast(withdrawn), probe);
        let error = error.expect_err("withdrawn");
        assert_eq!(error.applied(), Applied::No);
        assert!(error.to_string().contains("password refused"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn last_failure_is_that_of_the_last_probe() {
        let health = StoreHealth::new();
        let none = StoreError::outage(OutageCause::NoConnection, "no database");
        assert!(!health.probe(async { Err(none) }, || None, || ()).await);
        let empty = StoreError::Misconfigured("no table".to_owned());
        assert!(!health.probe(async { Err(empty) }, || None, || ()).await);
        assert_eq!(status(&health), (false, Some(OutageCause::Other), 0));
        let error = health.unhealthy_error().to_string();
        assert!(error.contains("no table"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn probe_without_an_answer_names_the_obstacle() {
        let health = StoreHealth::new();
        let silent = async {
            tokio::time::sleep(PROBE_TIMEOUT * 2).await;
            Err(StoreError::not_begun(OutageCause::NoAnswer, "withdrawn"))
        };
        let obstacle = || Some("process 7 has the lock".to_owned());
        assert!(!health.probe(silent, obstacle, || ()).await);
        assert_eq!(status(&health), (false, Some(OutageCause::Busy), 0));
        let error = health.unhealthy_error().to_string();
        assert!(error.contains("process 7 has the lock"), "{error}");
    }
}
