//! The monitor of one queue: a task that reads the queue's statistics at intervals and watches the age of its leases.
//!
//! Metrics and the admin port show the last statistics, so that they never ask the database themselves. Every broker
//! has the task. It uses the store directly: a slow count must not make the store unhealthy.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_broker_model::item_state::State;
use lease_broker_store::{
    Browse, FoundGroups, GroupSearch, ListedItem, QueueIndex, Stats, StoreError,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::operation_metrics::{Operation, OperationMetrics};
use super::store_health::StoreHealth;

mod group_sample;
#[cfg(test)]
mod tests;

pub use self::group_sample::GroupSample;

/// The pause after a refresh is at least this many times as long as its statements took, so that a database on which counting is
/// slow spends at most 1 % of its time on it. The wait for the database does not count.
const PAUSE_PER_DURATION: u32 = 100;
/// The longest such pause, unless the interval is longer. Older statistics would not be worth much.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The number of queues whose statistics are read at the same time. Others wait for their turn in a row.
pub(super) const CONCURRENT_REFRESHES: usize = 2;
/// The number of leases that the watchdog names. Further leases are only counted.
const NAMED_LEASES: usize = 20;
/// The interval at which the watchdog names the same lease again.
const REPEAT_INTERVAL: Duration = Duration::from_secs(600);

/// The last statistics of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueStatus {
    /// The counts and ages, at the time of the refresh.
    pub stats: Stats,
    /// The time since the refresh.
    pub age: Duration,
    /// The number of leases that are older than the queue's `max_lease_age`. At most 21, which stands for more than 20.
    pub over_age: usize,
    /// The numbers of its groups. `None`: the queue has none, or they could not be counted yet.
    pub groups: Option<GroupSample>,
    /// The time since the groups were counted. Longer than `age` if they cannot be counted any more.
    pub groups_age: Duration,
}

/// The result of a refresh.
#[derive(Clone, Copy, Debug)]
struct Refresh {
    stats: Stats,
    over_age: usize,
    groups: Option<GroupSample>,
    at: Instant,
    /// The time of the last refresh that could count the groups.
    groups_at: Instant,
}

/// The last refresh of a queue, shared with the readers of its status.
#[derive(Debug)]
pub(super) struct LastRefresh {
    start: Instant,
    last: Mutex<Option<Refresh>>,
}

impl Default for LastRefresh {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            last: Mutex::default(),
        }
    }
}

impl LastRefresh {
    /// Returns the status. `None`: no refresh has succeeded yet.
    pub(super) fn status(&self) -> Option<QueueStatus> {
        let last = *self.last.lock();
        last.map(|last| QueueStatus {
            stats: last.stats,
            age: last.at.elapsed(),
            over_age: last.over_age,
            groups: last.groups,
            groups_age: last.groups_at.elapsed(),
        })
    }

    /// Returns the age of the oldest part of the status. A part that was never read is as old as the broker.
    pub(super) fn age(&self) -> Duration {
        let last = *self.last.lock();
        let oldest = last.map_or(self.start, |last| last.at.min(last.groups_at));
        oldest.elapsed()
    }

    /// Returns the groups as they were last counted, and when.
    fn groups(&self) -> (Option<GroupSample>, Instant) {
        let last = *self.last.lock();
        last.map_or((None, self.start), |last| (last.groups, last.groups_at))
    }

    fn set(&self, refresh: Refresh) {
        *self.last.lock() = Some(refresh);
    }
}

/// What a monitor reads. Every store has it.
#[async_trait]
pub(super) trait MonitoredStore: Send + Sync {
    /// See [`Browse::timed_stats`].
    async fn timed_stats(&self, queue: QueueIndex) -> Result<(Stats, Duration), StoreError>;

    /// Lists leases as [`Browse::list`] does.
    async fn oldest_leases(
        &self,
        queue: QueueIndex,
        limit: usize,
    ) -> Result<Vec<ListedItem>, StoreError>;

    /// See [`Browse::find_groups`].
    async fn find_groups(
        &self,
        queue: QueueIndex,
        search: GroupSearch,
    ) -> Result<FoundGroups, StoreError>;
}

#[async_trait]
impl<T: Browse + ?Sized> MonitoredStore for T {
    async fn timed_stats(&self, queue: QueueIndex) -> Result<(Stats, Duration), StoreError> {
        Browse::timed_stats(self, queue, None).await
    }

    async fn oldest_leases(
        &self,
        queue: QueueIndex,
        limit: usize,
    ) -> Result<Vec<ListedItem>, StoreError> {
        self.list(queue, State::Leased, limit).await
    }

    async fn find_groups(
        &self,
        queue: QueueIndex,
        search: GroupSearch,
    ) -> Result<FoundGroups, StoreError> {
        Browse::find_groups(self, queue, search).await
    }
}

/// The state of a monitor's task.
pub(super) struct QueueMonitor<S: ?Sized> {
    pub(super) store: Arc<S>,
    pub(super) health: Arc<StoreHealth>,
    /// The turns of the monitors of all queues.
    pub(super) turns: Arc<Semaphore>,
    pub(super) queue: QueueIndex,
    pub(super) queue_name: String,
    /// The interval between two refreshes.
    pub(super) interval: Duration,
    /// The age at which a lease is reported. `None`: no lease is reported.
    pub(super) max_lease_age: Option<Duration>,
    pub(super) has_groups: bool,
    pub(super) last_refresh: Arc<LastRefresh>,
    pub(super) metrics: Arc<OperationMetrics>,
    /// The leases that were reported as too old, by key and fencing token, with the time of the last report.
    pub(super) reported: HashMap<(String, i64), Instant>,
}

impl<S: MonitoredStore + ?Sized> QueueMonitor<S> {
    /// Runs the monitor until `stop` is cancelled.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let work = async {
            loop {
                let took = self.refresh_if_healthy().await;
                // The random part keeps brokers that were started together from counting together.
                let share: f64 = rand::random_range(0.75..1.25);
                let pause = self.interval.mul_f64(share);
                let rest = took.saturating_mul(PAUSE_PER_DURATION);
                let max_rest = MAX_PAUSE.max(self.interval);
                tokio::time::sleep(pause.max(rest.min(max_rest))).await;
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// Returns how long the statements took. A failure asks for no longer pause: the database may be well again soon.
    async fn refresh_if_healthy(&mut self) -> Duration {
        let turns = self.turns.clone();
        let _turn = turns.acquire().await;
        if !*self.health.subscribe().borrow() {
            return Duration::ZERO;
        }
        self.refresh().await.unwrap_or_else(|error| {
            let queue = &self.queue_name;
            tracing::warn!(queue, %error, "statistics not refreshed");
            Duration::ZERO
        })
    }

    async fn refresh(&mut self) -> Result<Duration, StoreError> {
        let start = Instant::now();
        let stats = self.store.timed_stats(self.queue).await;
        let duration = start.elapsed();
        self.metrics
            .observe(self.queue, Operation::Other, duration, stats.as_ref().err());
        let (mut stats, took) = stats?;
        let may_be_old = |max| {
            // A sample can lack the oldest lease. A list has more of them, or all.
            stats.oldest_lease_is_sampled || stats.oldest_lease.is_some_and(|age| age > max)
        };
        let over_age = match self.max_lease_age {
            Some(max) if may_be_old(max) => {
                let oldest = self
                    .store
                    .oldest_leases(self.queue, NAMED_LEASES + 1)
                    .await?;
                let listed = oldest.first().and_then(|item| item.age);
                stats.oldest_lease = stats.oldest_lease.max(listed);
                self.report(&oldest, max)
            }
            _ => {
                self.reported.clear();
                0
            }
        };
        let at = Instant::now();
        let sampled = self.sample_groups().await;
        let ((groups, groups_at), took_groups) = match sampled {
            Ok((groups, took)) => ((groups, Instant::now()), took),
            Err(error) => {
                let queue = &self.queue_name;
                tracing::warn!(queue, %error, "groups not counted");
                (self.last_refresh.groups(), Duration::ZERO)
            }
        };
        self.last_refresh.set(Refresh {
            stats,
            over_age,
            groups,
            at,
            groups_at,
        });
        Ok(took + took_groups)
    }

    /// Looks at the groups. Returns also how long that took.
    async fn sample_groups(&self) -> Result<(Option<GroupSample>, Duration), StoreError> {
        if !self.has_groups {
            return Ok((None, Duration::ZERO));
        }
        let start = Instant::now();
        let found = self
            .store
            .find_groups(self.queue, GroupSample::SEARCH)
            .await?;
        Ok((Some(GroupSample::new(&found)), start.elapsed()))
    }

    /// Logs the leases that are older than `max`, each when it crosses the age and again at intervals. `oldest` has the
    /// oldest leases first. Returns the number of leases that are too old.
    fn report(&mut self, oldest: &[ListedItem], max: Duration) -> usize {
        let queue = &self.queue_name;
        let is_old = |item: &&ListedItem| item.age.is_some_and(|age| age > max);
        let old: Vec<&ListedItem> = oldest.iter().filter(is_old).collect();
        let now = Instant::now();
        let mut still_old = HashMap::with_capacity(old.len());
        for item in old.iter().take(NAMED_LEASES) {
            let lease = (item.key.to_string(), item.fence);
            let last = self.reported.get(&lease).copied();
            let reported = last.filter(|last| now.duration_since(*last) < REPEAT_INTERVAL);
            if reported.is_none() {
                let age = item.age.unwrap_or_default().as_secs();
                tracing::warn!(
                    queue,
                    key = lease.0,
                    fence = item.fence,
                    worker = item.owner,
                    attempt = item.attempt,
                    age_seconds = age,
                    "lease is older than max_lease_age"
                );
            }
            still_old.insert(lease, reported.unwrap_or(now));
        }
        if old.len() > NAMED_LEASES {
            tracing::warn!(
                queue,
                "more than {NAMED_LEASES} leases are older than max_lease_age"
            );
        }
        self.reported = still_old;
        old.len()
    }
}
