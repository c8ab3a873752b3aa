//! Retention of one queue: a task that deletes items that have been completed or dead for long, and old archived rows.
//!
//! If no index holds the completed items, the task walks through the table in the order of the key. With `completed_index` it
//! visits the old items only, the oldest first. Each step visits
//! [`STEP_ROWS`] rows and deletes the old ones in one transaction. Between two steps the task rests for 20 times as
//! long as the step took, so that claims get most of the database's time.
//!
//! Only one broker at a time walks through a queue's table. It takes a turn, a row of `lease_broker_retention`, and takes
//! it again while it walks. After the walk it keeps the turn until the next walk is due. The row survives a restart, so
//! brokers that restart often do not walk more often. An application lock would need a session of its own for the whole
//! walk, and `SQLite` has none.
//!
//! A walk begins and goes on only while the store's clock is trusted, see `steady_clock.rs`. Each step counts ages until the time that the
//! clock shows without a step. So a step that no reaper has seen yet deletes nothing.

use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::queue::KeepFor;
use lease_broker_store::{
    ArchiveCutoff, LatestTime, PurgePosition, PurgeStep, Purged, QueueIndex, RetentionTurn,
    StoreError, Upkeep,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::operation_metrics::OperationMetrics;
use super::steady_clock::SteadyClock;
use super::store_health::StoreHealth;

/// The maximum number of rows that a step visits, and so that a transaction deletes. On SQL Server a deleted row takes one
/// lock per index, and about 5,000 locks become a lock of the table.
pub const STEP_ROWS: usize = 500;
/// If the database refuses a deletion, the walk halves its steps until it has found the row, keeps that row, and goes on. After
/// this many rows it keeps whole steps: it would otherwise try each row of a table whose rows are all refused.
const MAX_FOUND: u64 = 100;
/// The rest after a step is this many times as long as the step took, and at least [`MIN_REST`]. The walk then takes less than
/// 5 % of the time of SQLite's only writer, even where every row is deleted.
const REST_FACTOR: u32 = 20;
const MIN_REST: Duration = Duration::from_millis(5);
/// The duration of a turn while the broker walks. If the broker stops, another one continues after this time.
const TURN: Duration = Duration::from_secs(60);
/// The time between two walks is a tenth of the shortest age, within these bounds.
const MIN_INTERVAL: Duration = Duration::from_secs(60);
const MAX_INTERVAL: Duration = RetentionTurn::LONGEST;

/// A walk through a queue's table.
pub struct Walk<'a> {
    store: &'a dyn Upkeep,
    queue: QueueIndex,
    step: PurgeStep,
    steps: u64,
    /// The row at which a step with a power of two as its number ended.
    checkpoint: Option<PurgePosition>,
    refused: Refused,
}

/// The rows that a walk has kept because the database refused their deletion, for example because another table refers to them.
#[derive(Default)]
pub struct Refused {
    /// The number of refusals. Each concerns a row, or a step of rows if there were many refusals.
    pub count: u64,
    /// The first refusal.
    pub first: Option<StoreError>,
}

impl<'a> Walk<'a> {
    /// Begins a walk. `delete` is false to count old items only.
    pub fn new(store: &'a dyn Upkeep, queue: QueueIndex, keep_for: KeepFor, delete: bool) -> Self {
        let step = PurgeStep {
            after: None,
            completed: keep_for.completed,
            dead: keep_for.dead,
            latest: None,
            limit: STEP_ROWS,
            delete,
        };
        Self {
            store,
            queue,
            step,
            steps: 0,
            checkpoint: None,
            refused: Refused::default(),
        }
    }

    /// Returns the rows that were kept so far.
    pub fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Visits the next rows, then rests. Returns the number of old items that it deleted or counted. `None`: the walk has
    /// reached the end of the table. If the database refuses the deletion, the next step is smaller, or passes over the row. `latest`: as in
    /// [`PurgeStep`].
    ///
    /// # Errors
    /// Those of [`Upkeep::purge`], except a refusal. The walk can continue, at the same rows.
    pub async fn next(&mut self, latest: Option<LatestTime>) -> Result<Option<usize>, StoreError> {
        let start = Instant::now();
        self.step.latest = latest;
        let purged = match self.store.purge(self.queue, self.step.clone()).await {
            Err(StoreError::Rejected(_))
                if self.step.limit > 1 && self.refused.count < MAX_FOUND =>
            {
                self.step.limit /= 2;
                rest(start.elapsed()).await;
                return Ok(Some(0));
            }
            Err(error @ StoreError::Rejected(_)) => {
                self.refused.count += 1;
                self.refused.first.get_or_insert(error);
                self.visit_without_deletion().await?
            }
            outcome => {
                let purged = outcome?;
                self.step.limit = STEP_ROWS.min(self.step.limit * 2);
                purged
            }
        };
        let Some(last) = purged.last else {
            return Ok(None);
        };
        if self.checkpoint.as_ref() == Some(&last) {
            // Positions grow along the walk. If one comes again, the database compares keys in a way that a condition on a key
            // does not express, and the walk would never end.
            return Err(StoreError::Bug(format!(
                "the walk came to the key {} twice",
                last.key
            )));
        }
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.checkpoint = Some(last.clone());
        }
        self.step.after = Some(last);
        rest(start.elapsed()).await;
        Ok(Some(purged.old))
    }

    /// Visits the rows of the step and deletes none.
    async fn visit_without_deletion(&mut self) -> Result<Purged, StoreError> {
        let step = PurgeStep {
            delete: false,
            ..self.step.clone()
        };
        let visited = self.store.purge(self.queue, step).await?;
        Ok(Purged { old: 0, ..visited })
    }
}

/// Deletes old rows of the archive, up to [`STEP_ROWS`], then rests. Returns their number. Zero: none is left.
///
/// # Errors
/// Those of [`Upkeep::purge_archive`].
pub async fn purge_archive_step(
    store: &dyn Upkeep,
    queue: QueueIndex,
    cutoff: ArchiveCutoff,
) -> Result<usize, StoreError> {
    let start = Instant::now();
    let deleted = store.purge_archive(queue, cutoff, STEP_ROWS).await?;
    if deleted > 0 {
        rest(start.elapsed()).await;
    }
    Ok(deleted)
}

async fn rest(work: Duration) {
    tokio::time::sleep((work * REST_FACTOR).max(MIN_REST)).await;
}

/// The state of a queue's retention task.
pub(super) struct Retention {
    pub(super) store: Arc<dyn Upkeep>,
    pub(super) health: Arc<StoreHealth>,
    pub(super) metrics: Arc<OperationMetrics>,
    pub(super) queue: QueueIndex,
    /// The queue's name, for the log.
    pub(super) queue_name: String,
    pub(super) keep_for: KeepFor,
    pub(super) clock: Arc<SteadyClock>,
    /// The id of this broker, which holds the turns.
    pub(super) broker: Uuid,
}

/// The rows that a walk deleted.
#[derive(Default)]
struct Deleted {
    items: usize,
    archived: usize,
}

impl Retention {
    /// Runs the task until `stop` is cancelled.
    pub(super) async fn run(self, stop: CancellationToken) {
        // A walk stops between two steps. What it has deleted stays deleted.
        stop.run_until_cancelled(self.run_forever()).await;
    }

    async fn run_forever(&self) {
        let shortest = self.keep_for.shortest().unwrap_or(MAX_INTERVAL);
        let interval = (shortest / 10).clamp(MIN_INTERVAL, MAX_INTERVAL);
        loop {
            self.clock.wait_for_trust().await;
            let pause = match self.walk_if_turn(interval).await {
                Ok(pause) => pause,
                Err(error) => {
                    let queue = &self.queue_name;
                    let bug = matches!(error, StoreError::Bug(_));
                    tracing::error!(queue, %error, bug, "retention failed and will try again");
                    MIN_INTERVAL
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Walks if no other broker has the turn. Returns the time until the next try.
    async fn walk_if_turn(&self, interval: Duration) -> Result<Duration, StoreError> {
        if let RetentionTurn::Busy(time_left) = self.take_turn(TURN).await? {
            // At least a second, so that a broker whose clock differs does not ask again and again.
            return Ok(time_left.max(Duration::from_secs(1)));
        }
        let start = Instant::now();
        let deleted = self.walk().await?;
        let seconds = start.elapsed().as_secs();
        let (queue, items, archived) = (&self.queue_name, deleted.items, deleted.archived);
        if items + archived > 0 {
            tracing::info!(queue, items, archived, seconds, "old items deleted");
        } else {
            tracing::debug!(queue, seconds, "no old items to delete");
        }
        if self.clock.latest().is_none() {
            // The walk was ended before its time. The turn ends by itself.
            return Ok(Duration::ZERO);
        }
        self.take_turn(interval).await?;
        Ok(interval)
    }

    async fn take_turn(&self, duration: Duration) -> Result<RetentionTurn, StoreError> {
        let turn = self
            .store
            .take_retention_turn(self.queue, self.broker, duration);
        self.health.fail_fast(turn).await
    }

    /// Walks to the end of the table and of the archive, or until the clock makes a step.
    async fn walk(&self) -> Result<Deleted, StoreError> {
        let mut deleted = Deleted::default();
        let mut turn_taken = Instant::now();
        if self.keep_for.completed.is_some() || self.keep_for.dead.is_some() {
            let mut walk = Walk::new(&*self.store, self.queue, self.keep_for, true);
            while let Some(latest) = self.clock.latest()
                && let Some(old) = self.health.fail_fast(walk.next(Some(latest))).await?
            {
                deleted.items += old;
                self.count(old);
                self.keep_turn(&mut turn_taken).await?;
            }
            if let Refused {
                count,
                first: Some(error),
            } = walk.refused()
            {
                let queue = &self.queue_name;
                tracing::warn!(queue, %error, refusals = count, "old items cannot be deleted");
            }
        }
        if let Some(age) = self.keep_for.archive {
            while let Some(latest) = self.clock.latest() {
                let latest = Some(latest);
                let cutoff = ArchiveCutoff::Age { age, latest };
                let step = purge_archive_step(&*self.store, self.queue, cutoff);
                match self.health.fail_fast(step).await? {
                    0 => break,
                    rows => {
                        deleted.archived += rows;
                        self.count(rows);
                    }
                }
                self.keep_turn(&mut turn_taken).await?;
            }
        }
        Ok(deleted)
    }

    fn count(&self, deleted: usize) {
        self.metrics.queue(self.queue).purged.add(deleted);
    }

    /// Takes the turn again if a third of it has passed.
    async fn keep_turn(&self, taken: &mut Instant) -> Result<(), StoreError> {
        if taken.elapsed() >= TURN / 3 {
            *taken = Instant::now();
            if let RetentionTurn::Busy(_) = self.take_turn(TURN).await? {
                return Err(StoreError::unavailable(
                    "another broker has begun to delete the queue's old items",
                ));
            }
        }
        Ok(())
    }
}
