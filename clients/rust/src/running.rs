//! A worker that runs, as its program sees it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::errors::WorkerError;
use super::events::EventName;
use super::health::ConnectionHealth;
use super::state::State;

/// A worker that was started by [`Worker::start`](super::Worker::start). When the last handle is dropped, the worker
/// stops.
#[derive(Clone)]
#[must_use = "the worker stops when its last handle is dropped"]
pub struct RunningWorker(pub(super) Arc<Handle>);

/// The link between the program and the threads of the worker.
pub(super) struct Handle {
    pub(super) control: Arc<Control>,
    pub(super) state: Arc<State>,
    pub(super) health: Arc<ConnectionHealth>,
}

/// The requests of the program to the threads of the worker, and their result.
pub(super) struct Control {
    /// The grace of the stop that was asked for.
    pub(super) stop: watch::Sender<Option<Duration>>,
    /// Is cancelled when handlers shall be cancelled before their grace has passed.
    pub(super) hurry: CancellationToken,
    /// Is cancelled when signals shall stop the worker.
    pub(super) obey_signals: CancellationToken,
    /// Is cancelled when the threads have ended.
    pub(super) stopped: CancellationToken,
    /// The first error.
    pub(super) error: Mutex<Option<WorkerError>>,
}

impl Control {
    pub(super) fn new() -> Self {
        Self {
            stop: watch::Sender::new(None),
            hurry: CancellationToken::new(),
            obey_signals: CancellationToken::new(),
            stopped: CancellationToken::new(),
            error: Mutex::new(None),
        }
    }

    /// Asks the worker to stop. The grace of the first request counts.
    pub(super) fn request_stop(&self, grace: Duration) {
        self.stop.send_if_modified(|asked| {
            let is_first = asked.is_none();
            asked.get_or_insert(grace);
            is_first
        });
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

impl RunningWorker {
    /// Stops in order: claims no more items, waits for handlers for the grace, cancels the others, settles all items, and
    /// ends the heartbeats. Further calls wait for the first one. It takes at most the grace and 10 s more.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub async fn stop(&self, grace: Duration) -> Result<(), WorkerError> {
        self.0.control.request_stop(grace);
        self.wait().await
    }

    /// Lets SIGTERM and SIGINT stop the worker with its option `grace`. A second signal cancels the handlers. From now on these signals
    /// never end the process by themselves, also after the worker has stopped, because tokio keeps its signal handlers. If
    /// other work follows, listen for the signals with [`tokio::signal`].
    pub fn stop_on_signals(&self) {
        self.0.control.obey_signals.cancel();
    }

    /// Waits until the worker has stopped.
    ///
    /// # Errors
    /// [`WorkerError::Refused`] if the broker refuses the worker, [`WorkerError::HandlersLeft`] if handlers did not end.
    pub async fn wait(&self) -> Result<(), WorkerError> {
        self.0.control.stopped.cancelled().await;
        self.0.control.error().map_or(Ok(()), Err)
    }

    /// Returns false if more than `max_stuck` handlers are stuck, if the broker has refused the worker, or if all calls
    /// have failed for as long as a lease lasts.
    pub fn health(&self) -> bool {
        let state = &self.0.state;
        let stuck = state.lock().stuck > state.options.max_stuck();
        let refused = self.0.control.error().is_some();
        !stuck && !refused && self.0.health.failing_for() <= state.longest_lease()
    }

    /// Returns the number of times that each event has happened.
    pub fn counters(&self) -> Vec<(EventName, u64)> {
        self.0.state.events.counters()
    }
}

/// Runs workers, such as those of one [`Connection`](super::Connection), until SIGTERM or SIGINT arrives, as
/// [`Worker::run`](super::Worker::run) does with one. If one of them ends with an error, the others stop in order. They are asked
/// to stop when that one has ended, so all of it can take twice the grace and 20 s.
///
/// # Errors
/// The first error, as for [`Worker::run`](super::Worker::run). Errors of other workers are dropped, also
/// [`WorkerError::HandlersLeft`]: end the process after any error.
pub async fn run_all(workers: impl IntoIterator<Item = RunningWorker>) -> Result<(), WorkerError> {
    let workers: Vec<_> = workers.into_iter().collect();
    for worker in &workers {
        worker.stop_on_signals();
    }
    wait_all(&workers).await
}

/// Waits until all workers have stopped. If one ends with an error, the others stop. Returns the first error.
pub(super) async fn wait_all(workers: &[RunningWorker]) -> Result<(), WorkerError> {
    let mut waits: FuturesUnordered<_> = workers.iter().map(RunningWorker::wait).collect();
    let mut result = Ok(());
    while let Some(ended) = waits.next().await {
        if ended.is_err() {
            for worker in workers {
                worker.0.request_stop();
            }
        }
        result = result.and(ended);
    }
    result
}

impl Handle {
    /// Asks the worker to stop with its option `grace`.
    fn request_stop(&self) {
        self.control.request_stop(self.state.options.grace);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.request_stop();
    }
}
