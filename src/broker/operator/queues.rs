//! The present state of queues: counts, ages, pauses, rates and running operations.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{Activity, OutageCause, QueueIndex, QueuePause, Stats, StoreError};
use tokio::time::{Instant, timeout_at};

use super::Operator;
use super::operations::OperationView;
use crate::broker::error::Error;

/// The reason why a table cannot be read, as a caller gets it. The cause can name hosts, logins and statements.
const UNREADABLE: &str = "the table cannot be read: the schema, the login or the configuration must be corrected; the broker's log has the cause";

/// The reason why a table was not counted.
const LATE: &str = "the table was not counted in time: another program has locked it, or the database is slow; the broker's log has the cause";

/// The time limits for the counts of a call. Most tables take milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct CountLimits {
    /// The limit for one queue.
    queue: Duration,
    /// The limit for all queues together.
    all: Duration,
}

impl CountLimits {
    /// The limits for a call. Both are shorter than the default timeout of the commands that call a service.
    pub const CALL: Self = Self {
        queue: Duration::from_secs(5),
        all: Duration::from_secs(8),
    };
    /// The limits for a page of the dashboard, which is given up after 4.5 s.
    pub const PAGE: Self = Self {
        queue: Duration::from_secs(2),
        all: Duration::from_secs(3),
    };
}

/// The number of queues of a call that are counted at the same time. The others do not wait for one that is slow.
const CONCURRENT_COUNTS: usize = 4;

/// The present state of a queue.
#[derive(Clone, Debug)]
pub struct QueueState<'a> {
    /// The settings of the queue here.
    pub spec: &'a QueueSpec,
    /// The counts and ages.
    ///
    /// # Errors
    /// The reason why the table cannot be read or was not counted in time, for the caller.
    pub stats: Result<Stats, &'static str>,
    /// The pause. `None`: the queue is not paused.
    pub pause: Option<QueuePause>,
    /// The activity of all live brokers together.
    pub activity: Activity,
    /// The operations that run.
    pub operations: Vec<OperationView>,
}

impl Operator {
    /// Returns the state of queues, each once and sorted by name: of these, or of those that `is_visible` accepts if
    /// there is no name. `limits`: those of the counts; `None`: every item is counted. A queue whose table cannot be read, is locked or is slow does not hide the
    /// others.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], and those of the store.
    pub async fn list_queues(
        &self,
        names: &[String],
        limits: Option<CountLimits>,
        is_visible: impl Fn(&str) -> bool,
    ) -> Result<Vec<QueueState<'_>>, Error> {
        let mut selected = Vec::new();
        for name in names {
            selected.push(self.queue(name)?.0);
        }
        if names.is_empty() {
            let visible = self.queue_names().filter(|name| is_visible(name));
            selected.extend(visible.filter_map(|name| self.index_by_name.get(name).copied()));
        }
        selected.sort_unstable_by_key(|index| index.0);
        selected.dedup();
        let pauses = self.inspect.pauses().await?;
        let brokers = self.inspect.brokers().await?.brokers;
        let visible: Vec<String> = selected
            .iter()
            .map(|index| self.queues[index.0].name.clone())
            .collect();
        let running = self.running_operations(visible).await?;
        let limits = limits.map(|limits| (limits.queue, Instant::now() + limits.all));
        let counts = selected
            .iter()
            .map(|index| self.count_items(*index, limits));
        // Collected, because a future that holds the iterator is not `Send`.
        let counts: Vec<_> = counts.collect();
        let counts = stream::iter(counts).buffered(CONCURRENT_COUNTS);
        let counts: Vec<_> = counts.try_collect().await?;
        let mut states = Vec::with_capacity(selected.len());
        for (index, stats) in selected.into_iter().zip(counts) {
            let spec = &self.queues[index.0];
            let mut activity = Activity::default();
            for broker in brokers.iter().filter(|broker| broker.is_live()) {
                activity += broker
                    .instance
                    .activity
                    .get(&spec.name)
                    .copied()
                    .unwrap_or_default();
            }
            let mut pauses = pauses.iter();
            let operations = running
                .iter()
                .filter(|view| view.operation.queue == spec.name);
            states.push(QueueState {
                spec,
                stats,
                pause: pauses.find(|pause| pause.queue == spec.name).cloned(),
                activity,
                operations: operations.cloned().collect(),
            });
        }
        Ok(states)
    }

    /// Counts the items of a queue. `limits`: the time limit and the end of the time for all queues. The inner error is that of its
    /// table.
    async fn count_items(
        &self,
        index: QueueIndex,
        limits: Option<(Duration, Instant)>,
    ) -> Result<Result<Stats, &'static str>, Error> {
        let counted = if let Some((limit, deadline)) = limits {
            let counting = self.inspect.timed_stats(index, Some(limit));
            let counted = timeout_at(deadline, counting).await;
            let counted = counted.unwrap_or_else(|_| {
                let reason = "no time is left for this queue, because others were slow";
                Err(StoreError::not_begun(OutageCause::NoAnswer, reason))
            });
            counted.map(|(stats, _)| stats)
        } else {
            self.inspect.exact_stats(index).await
        };
        let queue = &self.queues[index.0].name;
        match counted {
            Ok(stats) => Ok(Ok(stats)),
            Err(StoreError::Misconfigured(problem)) => {
                tracing::error!(queue, %problem, "queue cannot be read");
                Ok(Err(UNREADABLE))
            }
            // The database has just answered, so a lock or a slow statement is a matter of this table.
            Err(StoreError::Unavailable(outage))
                if matches!(outage.cause, OutageCause::Busy | OutageCause::NoAnswer) =>
            {
                tracing::warn!(queue, %outage, "queue not counted in time");
                Ok(Err(LATE))
            }
            Err(error) => Err(error.into()),
        }
    }
}
