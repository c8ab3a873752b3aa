//! Whether the store answers. While calls and reapers succeed nothing is asked; once one finds the store unavailable, it
//! is probed until it answers and writes again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::store::{Store, StoreError};

/// The pause between two probes, and the longest that one may take.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(2);

/// Knows whether the store answers.
pub(super) struct Pulse {
    suspected: Notify,
    answers: watch::Sender<bool>,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self {
            suspected: Notify::new(),
            answers: watch::Sender::new(true),
        }
    }

    /// Takes note of an operation's error.
    pub(super) fn note(&self, error: &StoreError) {
        if matches!(error, StoreError::Unavailable(_) | StoreError::Io(_)) {
            self.suspected.notify_one();
        }
    }

    /// Follows whether the store answers.
    pub(super) fn answers(&self) -> watch::Receiver<bool> {
        self.answers.subscribe()
    }

    /// Probes a suspected store, until `stop` is cancelled.
    pub(super) async fn watch(self: Arc<Self>, store: Arc<dyn Store>, stop: CancellationToken) {
        let answers = async || {
            let probe = tokio::time::timeout(PATIENCE, store.probe()).await;
            matches!(probe, Ok(Ok(())))
        };
        let watch = async {
            loop {
                self.suspected.notified().await;
                // An error may be told of when the store is back: one answered probe clears the suspicion.
                if answers().await {
                    continue;
                }
                self.answers.send_replace(false);
                tracing::error!("the store does not answer");
                while !answers().await {
                    tokio::time::sleep(PAUSE).await;
                }
                tracing::info!("the store answers");
                self.answers.send_replace(true);
            }
        };
        tokio::select! {
            () = watch => {}
            () = stop.cancelled() => {}
        }
    }
}
