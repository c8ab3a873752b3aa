//! A worker that runs, as its program sees it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::errors::WorkerError;
use super::events::EventName;
use super::state::State;

/// A worker that was started by [`Worker::start`](super::Worker::start). When the last handle is dropped, the worker
/// stops.
#[derive(Clone)]
#[must_use = "the worker stops when its last handle is dropped"]
pub struct RunningWorker(pub(super) Arc<Handle>);

/// Stops the worker when the program has no handle of it any more.
pub(super) struct Handle(pub(super) Arc<State>);

impl RunningWorker {
    /// Stops in order: claims no more items, waits for handlers for the grace, cancels the others, settles all items, and
    /// ends the heartbeats. Further calls wait for the first one. It takes at most the grace and 10 s more.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub async fn stop(&self, grace: Duration) -> Result<(), WorkerError> {
        self.state().control.request_stop(Some(grace));
        self.wait().await
    }

    /// Lets SIGTERM and SIGINT stop the worker with its option `grace`. A second signal cancels the handlers. From now on these signals
    /// never end the process by themselves, also after the worker has stopped, because tokio keeps its signal handlers. If
    /// other work follows, listen for the signals with [`tokio::signal`].
    pub fn stop_on_signals(&self) {
        self.state().control.obey_signals.cancel();
    }

    /// Waits until the worker has stopped.
    ///
    /// # Errors
    /// [`WorkerError::Refused`] if the broker refuses the worker, [`WorkerError::HandlersLeft`] if handlers did not end.
    pub async fn wait(&self) -> Result<(), WorkerError> {
        let control = &self.state().control;
        control.stopped.cancelled().await;
        control.error().map_or(Ok(()), Err)
    }

    /// Returns false if more than `max_stuck` handlers are stuck, if the broker has refused the worker, or if all calls
    /// have failed for as long as a lease lasts.
    pub fn health(&self) -> bool {
        let state = self.state();
        let stuck = state.lock().stuck > state.options.max_stuck();
        let refused = state.control.error().is_some();
        !stuck && !refused && state.health.failing_for() <= state.longest_lease()
    }

    /// Returns the number of times that each event has happened.
    pub fn counters(&self) -> Vec<(EventName, u64)> {
        self.state().events.counters()
    }

    fn state(&self) -> &State {
        &self.0.0
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
                worker.state().control.request_stop(None);
            }
        }
        result = result.and(ended);
    }
    result
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.control.request_stop(None);
    }
}
