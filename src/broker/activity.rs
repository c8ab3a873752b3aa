//! Events per second of each queue at this broker, over about 30 seconds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lease_broker_store::{Activity, QueueIndex};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::operation_metrics::OperationMetrics;
use super::queue_counters::{LeaseEnd, QueueCounters};

/// The time over which rates are measured.
const WINDOW: Duration = Duration::from_secs(30);

/// Measures the activity by the counters of the queues.
pub(super) struct ActivityMeter {
    metrics: Arc<OperationMetrics>,
    /// The counts of all queues at earlier times, the oldest first.
    samples: VecDeque<(Instant, Vec<Counts>)>,
    /// The names of the queues, in the order of their indexes.
    names: Vec<String>,
}

/// The activity of each queue at all brokers together, as this broker has seen it in the last 15 minutes: one sample every 5 s, and none
/// while the database did not answer.
#[derive(Debug, Default)]
pub struct ActivityHistory(Mutex<BTreeMap<String, VecDeque<(Instant, Activity)>>>);

/// The activity of a queue at a moment.
#[derive(Clone, Copy, Debug)]
pub struct ActivitySample {
    /// The time since that moment.
    pub age: Duration,
    /// The activity of all brokers together.
    pub activity: Activity,
}

impl ActivityHistory {
    /// The time for which a sample is kept.
    const KEPT_FOR: Duration = Duration::from_secs(15 * 60);

    /// Adds a sample: the sum over these brokers.
    pub(super) fn add<'a>(&self, brokers: impl Iterator<Item = &'a BTreeMap<String, Activity>>) {
        let mut sums: BTreeMap<&String, Activity> = BTreeMap::new();
        for (queue, activity) in brokers.flatten() {
            *sums.entry(queue).or_default() += *activity;
        }
        let now = Instant::now();
        let mut history = self.0.lock();
        for (queue, activity) in sums {
            let samples = history.entry(queue.clone()).or_default();
            samples.push_back((now, activity));
            while now.duration_since(samples[0].0) > Self::KEPT_FOR {
                samples.pop_front();
            }
        }
    }

    /// Returns the samples of a queue, the oldest first.
    pub fn of(&self, queue: &str) -> Vec<ActivitySample> {
        let now = Instant::now();
        let history = self.0.lock();
        let samples = history.get(queue).into_iter().flatten();
        let samples = samples.map(|(taken, activity)| ActivitySample {
            age: now.duration_since(*taken),
            activity: *activity,
        });
        samples
            .filter(|sample| sample.age <= Self::KEPT_FOR)
            .collect()
    }
}

/// The counters of a queue, as [`Activity`] has them: claimed, completed, failed, expired, enqueued, released and waited.
type Counts = [u64; 7];

impl ActivityMeter {
    /// `names`: those of the queues, in the order of their indexes.
    pub(super) fn new(metrics: Arc<OperationMetrics>, names: Vec<String>) -> Self {
        Self {
            metrics,
            samples: VecDeque::new(),
            names,
        }
    }

    /// Returns the activity since the oldest sample in the window, by the names of the queues.
    pub(super) fn measure(&mut self) -> BTreeMap<String, Activity> {
        let now = Instant::now();
        let indexes = (0..self.names.len()).map(QueueIndex);
        let counts: Vec<Counts> = indexes
            .map(|queue| counts(self.metrics.queue(queue)))
            .collect();
        let (since, former) = match self.samples.front() {
            Some((since, former)) => (*since, former.clone()),
            None => (now, counts.clone()),
        };
        let seconds = now.duration_since(since).as_secs_f64().max(1.0);
        let activity = self.names.iter().enumerate().map(|(index, name)| {
            let rate = |kind: usize| {
                let events = counts[index][kind].saturating_sub(former[index][kind]);
                // A count of 2^53 events is beyond the life of a process.
                #[expect(clippy::cast_precision_loss)]
                let events = events as f64;
                events / seconds
            };
            let activity = Activity {
                claimed: rate(0),
                completed: rate(1),
                failed: rate(2),
                expired: rate(3),
                enqueued: rate(4),
                released: rate(5),
                waited: rate(6),
                waiting: self.metrics.queue(QueueIndex(index)).waiting.get(),
            };
            (name.clone(), activity)
        });
        let activity = activity.collect();
        self.samples.push_back((now, counts));
        while self.samples.len() > 1 && now.duration_since(self.samples[0].0) > WINDOW {
            self.samples.pop_front();
        }
        activity
    }
}

fn counts(queue: &QueueCounters) -> Counts {
    let ended = |end: LeaseEnd| queue.ended[end as usize].get();
    [
        queue.claimed.get(),
        ended(LeaseEnd::Completed),
        ended(LeaseEnd::Failed),
        ended(LeaseEnd::Expired),
        queue.enqueued.get(),
        ended(LeaseEnd::Released),
        queue.waited_millis.get(),
    ]
}
