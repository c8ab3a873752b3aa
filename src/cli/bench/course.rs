//! What all tasks of a run share, and how they are started, watched and ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::latency::{Latencies, Rpc};
use super::ledger::Ledger;
use super::load::Load;
use super::measured::Watch;
use super::pace::Lateness;
use crate::cli::CommandError;

/// How long calls under way may take once the run is over.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all tasks of a run share.
pub(super) struct Course {
    pub(super) load: Load,
    pub(super) watch: Watch,
    pub(super) ledger: Ledger,
    pub(super) latencies: Latencies,
    pub(super) lateness: Lateness,
    /// Ends the run: each task finishes what it has in its hands.
    pub(super) stop: CancellationToken,
}

impl Course {
    pub(super) fn new(load: &Load, watch: &Watch) -> Arc<Self> {
        Arc::new(Self {
            ledger: Ledger::new(load.queues, load.goal()),
            latencies: Latencies::new(),
            lateness: Lateness::default(),
            stop: CancellationToken::new(),
            load: load.clone(),
            watch: watch.clone(),
        })
    }

    /// Adds a call that has ended.
    pub(super) fn record(&self, worker: usize, rpc: Rpc, since: Instant) {
        self.latencies.add(worker, rpc, since.elapsed());
    }
}

/// The tasks of a run.
#[derive(Default)]
pub(super) struct Tasks(JoinSet<Result<(), CommandError>>);

impl Tasks {
    pub(super) fn spawn(
        &mut self,
        task: impl Future<Output = Result<(), CommandError>> + Send + 'static,
    ) {
        self.0.spawn(task);
    }

    /// Waits for `end`, or for a task that fails.
    pub(super) async fn unless_one_fails<T>(
        &mut self,
        end: impl Future<Output = T>,
    ) -> Result<T, CommandError> {
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                end = &mut end => return Ok(end),
                Some(ended) = self.0.join_next() => outcome(ended)?,
            }
        }
    }

    /// Waits until all have ended.
    pub(super) async fn all(&mut self) -> Result<(), CommandError> {
        while let Some(ended) = self.0.join_next().await {
            outcome(ended)?;
        }
        Ok(())
    }

    /// Waits until all have ended that were told to, though not for ever.
    pub(super) async fn end(&mut self) -> Result<(), CommandError> {
        let ended = tokio::time::timeout(PATIENCE, self.all()).await;
        ended.unwrap_or_else(|_| {
            let patience = humantime::format_duration(PATIENCE);
            Err(CommandError::unavailable(format!(
                "bench: FAILED calls were not answered within {patience}"
            )))
        })
    }
}

fn outcome(ended: Result<Result<(), CommandError>, JoinError>) -> Result<(), CommandError> {
    ended.unwrap_or_else(|error| Err(CommandError::failed(format!("bench: FAILED {error}"))))
}
