//! The state that all tasks of a run share, and the set of these tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lease_broker::cli::{AuthorizedChannel, CommandError};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::args::LoadArgs;
use crate::errors::Errors;
use crate::item_ledger::ItemLedger;
use crate::latency::Latencies;
use crate::process_stats::Watch;
use crate::result::Result;
use crate::target::Target;

/// Timeout of the calls that are in flight when the run ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// The state that all tasks of a run share.
pub(crate) struct RunState {
    pub(crate) load: LoadArgs,
    pub(crate) channels: Vec<AuthorizedChannel>,
    pub(crate) queues: Vec<String>,
    /// The text column that new items set.
    pub(crate) column: String,
    pub(crate) watch: Watch,
    pub(crate) ledger: ItemLedger,
    pub(crate) latencies: Latencies,
    pub(crate) errors: Errors,
    /// The number of calls that have been sent and not been answered.
    pub(crate) open_calls: AtomicUsize,
    /// Cancelled to end the run. Each task first settles the leases that it has.
    pub(crate) stop: CancellationToken,
}

impl RunState {
    pub(crate) fn new(
        load: &LoadArgs,
        target: &Target,
        channels: &[AuthorizedChannel],
    ) -> Arc<Self> {
        Arc::new(Self {
            load: load.clone(),
            channels: channels.to_vec(),
            queues: target.queues.clone(),
            column: target.column.clone(),
            watch: target.watch.clone(),
            ledger: ItemLedger::new(target.queues.len(), load.goal()),
            latencies: Latencies::new(),
            errors: Errors::default(),
            open_calls: AtomicUsize::new(0),
            stop: CancellationToken::new(),
        })
    }

    /// Returns whether no worker may claim any more.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_cancelled() || self.ledger.goal_reached().is_cancelled()
    }
}

/// A call that has been sent and not been answered.
pub(crate) struct OpenCall<'a>(&'a AtomicUsize);

impl<'a> OpenCall<'a> {
    pub(crate) fn begin(state: &'a RunState) -> Self {
        state.open_calls.fetch_add(1, Ordering::Relaxed);
        Self(&state.open_calls)
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The tasks of a run. If one fails, the run fails.
#[derive(Default)]
pub(crate) struct Tasks(JoinSet<Result<()>>);

impl Tasks {
    pub(crate) fn spawn(&mut self, task: impl Future<Output = Result<()>> + Send + 'static) {
        self.0.spawn(task);
    }

    /// Waits for `event`.
    ///
    /// # Errors
    /// The first task that fails before.
    pub(crate) async fn run_until<T>(&mut self, event: impl Future<Output = T>) -> Result<T> {
        tokio::pin!(event);
        loop {
            tokio::select! {
                biased;
                value = &mut event => return Ok(value),
                Some(result) = self.0.join_next() => flatten(result)?,
            }
        }
    }

    /// Waits until all tasks have ended.
    pub(crate) async fn join_all(&mut self) -> Result<()> {
        while let Some(result) = self.0.join_next().await {
            flatten(result)?;
        }
        Ok(())
    }

    /// Waits until all tasks have ended after [`RunState::stop`], but no longer than [`STOP_TIMEOUT`].
    pub(crate) async fn join_stopped(&mut self) -> Result<()> {
        let joined = tokio::time::timeout(STOP_TIMEOUT, self.join_all()).await;
        joined.unwrap_or_else(|_| {
            Err(CommandError::unavailable(format!(
                "FAILED calls were not answered within {}",
                humantime::format_duration(STOP_TIMEOUT)
            )))
        })
    }
}

fn flatten(result: std::result::Result<Result<()>, JoinError>) -> Result<()> {
    result.unwrap_or_else(|panic| Err(CommandError::failed(format!("FAILED {panic}"))))
}
