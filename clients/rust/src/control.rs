//! The requests to the threads of a worker, and their result.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::errors::WorkerError;
use super::options::Options;

/// Stops the threads of a worker, and tells when and how they have ended.
pub(super) struct Control {
    options: Arc<Options>,
    /// The grace of the stop that was asked for.
    pub(super) stop: watch::Sender<Option<Duration>>,
    /// Is cancelled when handlers shall be cancelled before their grace has passed.
    pub(super) hurry: CancellationToken,
    /// Is cancelled when signals shall stop the worker.
    pub(super) obey_signals: CancellationToken,
    /// Is cancelled when the threads have ended.
    pub(super) stopped: CancellationToken,
    /// The first error.
    error: Mutex<Option<WorkerError>>,
}

impl Control {
    pub(super) fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            stop: watch::Sender::new(None),
            hurry: CancellationToken::new(),
            obey_signals: CancellationToken::new(),
            stopped: CancellationToken::new(),
            error: Mutex::new(None),
        }
    }

    /// Asks the worker to stop, with its option `grace` unless another one is given. The grace of the first request counts.
    pub(super) fn request_stop(&self, grace: Option<Duration>) {
        self.stop.send_if_modified(|asked| {
            let is_first = asked.is_none();
            asked.get_or_insert(grace.unwrap_or(self.options.grace));
            is_first
        });
    }

    /// Ends the worker, because it cannot go on or the broker refuses its calls.
    pub(super) fn fail(&self, error: WorkerError) {
        tracing::error!(queue = self.options.queue, %error, "worker stops");
        self.set_error(error);
        self.request_stop(None);
    }

    /// Keeps the first error.
    pub(super) fn set_error(&self, error: WorkerError) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
    }

    pub(super) fn error(&self) -> Option<WorkerError> {
        let first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.clone()
    }
}
