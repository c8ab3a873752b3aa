//! Whether the store answers. While operations succeed nothing is asked; once one finds the store unavailable, or takes
//! long, it is probed until it answers and writes again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::store::{Store, StoreError};

/// The pause between two probes, and how long one may take before the store counts as gone.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(4);
/// How long an operation may take before the store is suspected.
const SLOW: Duration = Duration::from_secs(3);

/// Knows whether the store answers.
pub(super) struct StoreHealth {
    suspected: Notify,
    answers: watch::Sender<bool>,
}

impl StoreHealth {
    pub(super) fn new() -> Self {
        Self {
            suspected: Notify::new(),
            answers: watch::Sender::new(true),
        }
    }

    /// Runs an operation while the store answers: if it does not, or stops to, the operation fails at once, whatever will
    /// become of it.
    pub(super) async fn guard<T>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut answers = self.answers.subscribe();
        let away = async {
            // Its sender lives as long as this pulse.
            let _ = answers.wait_for(|answers| !answers).await;
        };
        let slow = async {
            tokio::time::sleep(SLOW).await;
            self.suspected.notify_one();
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = away => {
                let next = humantime::format_duration(PAUSE);
                Err(StoreError::unavailable(format!("it does not answer; it is asked again every {next}")))
            }
            outcome = operation => {
                if let Err(StoreError::Unavailable(_) | StoreError::Io(_)) = outcome {
                    self.suspected.notify_one();
                }
                outcome
            }
            never = slow => never,
        }
    }

    /// Follows whether the store answers.
    pub(super) fn answers(&self) -> watch::Receiver<bool> {
        self.answers.subscribe()
    }

    /// Probes a suspected store, until `stop` is cancelled.
    pub(super) async fn watch(self: Arc<Self>, store: Arc<dyn Store>, stop: CancellationToken) {
        let watch = async {
            loop {
                self.suspected.notified().await;
                // An error may be told of when the store is back: one answered probe clears the suspicion.
                while !self.answered(&*store).await {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = watch => {}
            () = stop.cancelled() => {}
        }
    }

    /// Probes once, and tells everybody what came of it. A probe that takes long goes on: another one would have to begin
    /// anew, with a connection and a login.
    async fn answered(&self, store: &dyn Store) -> bool {
        let mut probe = store.probe();
        let in_time = tokio::time::timeout(PATIENCE, &mut probe).await;
        let outcome = if let Ok(outcome) = in_time {
            outcome
        } else {
            self.tell(false);
            probe.await
        };
        self.tell(outcome.is_ok());
        outcome.is_ok()
    }

    fn tell(&self, answers: bool) {
        let is_news = |known: &mut bool| std::mem::replace(known, answers) != answers;
        if !self.answers.send_if_modified(is_news) {
            return;
        }
        if answers {
            tracing::info!("the store answers");
        } else {
            tracing::error!("the store does not answer");
        }
    }
}
