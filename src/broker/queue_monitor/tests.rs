//! Tests of the pauses between refreshes, with a store whose statistics take as long as a test says.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lease_broker_model::key::Key;
use lease_broker_value::Value;

use super::*;

/// A store whose statistics arrive after `wait` and took `took`. Its leases are too many to be searched all, and one is a day old.
struct SlowStore {
    wait: Duration,
    took: Result<Duration, StoreError>,
    reads: AtomicUsize,
    running: AtomicUsize,
    most_running: AtomicUsize,
    /// False: its groups cannot be read.
    has_groups: AtomicBool,
}

#[async_trait]
impl MonitoredStore for SlowStore {
    async fn timed_stats(&self, _: QueueIndex) -> Result<(Stats, Duration), StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let running = 1 + self.running.fetch_add(1, Ordering::Relaxed);
        self.most_running.fetch_max(running, Ordering::Relaxed);
        tokio::time::sleep(self.wait).await;
        self.running.fetch_sub(1, Ordering::Relaxed);
        let stats = Stats {
            oldest_lease: Some(Duration::ZERO),
            oldest_lease_is_sampled: true,
            ..Stats::default()
        };
        self.took.clone().map(|took| (stats, took))
    }

    async fn oldest_leases(&self, _: QueueIndex, _: usize) -> Result<Vec<ListedItem>, StoreError> {
        Ok(vec![ListedItem {
            key: Key([Value::Int(1)].into()),
            owner: None,
            age: Some(DAY),
            state_time: None,
            due_in: None,
            due_time: None,
            attempt: 1,
            fence: 1,
            error: None,
        }])
    }

    async fn find_groups(&self, _: QueueIndex, _: GroupSearch) -> Result<FoundGroups, StoreError> {
        if self.has_groups.load(Ordering::Relaxed) {
            return Ok(FoundGroups::default());
        }
        Err(StoreError::Bug("no groups can be read".to_owned()))
    }
}

fn slow_store(wait: Duration, took: Result<Duration, StoreError>) -> Arc<SlowStore> {
    Arc::new(SlowStore {
        wait,
        took,
        reads: AtomicUsize::new(0),
        running: AtomicUsize::new(0),
        most_running: AtomicUsize::new(0),
        has_groups: AtomicBool::new(false),
    })
}

/// Returns a monitor with an interval of 10 s.
fn monitor(
    store: &Arc<SlowStore>,
    turns: &Arc<Semaphore>,
    queue: QueueIndex,
) -> QueueMonitor<SlowStore> {
    let metrics = OperationMetrics::new(queue.0 + 1, Arc::new(|_, _, _, _| ()));
    QueueMonitor {
        store: store.clone(),
        health: Arc::new(StoreHealth::new()),
        turns: turns.clone(),
        queue,
        queue_name: String::new(),
        interval: Duration::from_secs(10),
        max_lease_age: None,
        has_groups: false,
        last_refresh: Arc::default(),
        metrics: Arc::new(metrics),
        reported: HashMap::new(),
    }
}

/// Runs the monitors of this number of queues for ten minutes.
async fn ten_minutes(
    queues: usize,
    wait: Duration,
    took: Result<Duration, StoreError>,
) -> Arc<SlowStore> {
    let store = slow_store(wait, took);
    let turns = Arc::new(Semaphore::new(CONCURRENT_REFRESHES));
    let stop = CancellationToken::new();
    for queue in 0..queues {
        let monitor = monitor(&store, &turns, QueueIndex(queue));
        tokio::spawn(monitor.run(stop.clone()));
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    stop.cancel();
    store
}

const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test(start_paused = true)]
async fn old_lease_outside_the_sample_is_reported() {
    let store = slow_store(MILLISECOND, Ok(MILLISECOND));
    let turns = Arc::new(Semaphore::new(1));
    let mut monitor = monitor(&store, &turns, QueueIndex(0));
    monitor.max_lease_age = Some(DAY / 2);
    monitor.refresh_if_healthy().await;
    let status = monitor.last_refresh.status().expect("a refresh");
    assert_eq!(status.over_age, 1);
    assert_eq!(status.stats.oldest_lease, Some(DAY));
}

#[tokio::test(start_paused = true)]
async fn wait_for_the_database_makes_no_pause_longer() {
    let store = ten_minutes(1, Duration::from_secs(2), Ok(MILLISECOND)).await;
    let reads = store.reads.load(Ordering::Relaxed);
    assert!(reads > 600 / (2 + 13), "{reads}");
}

#[tokio::test(start_paused = true)]
async fn slow_statements_make_the_pause_a_minute_long() {
    let took = Duration::from_secs(5);
    let store = ten_minutes(1, took, Ok(took)).await;
    let reads = store.reads.load(Ordering::Relaxed);
    assert!((9..=10).contains(&reads), "{reads}");
}

#[tokio::test(start_paused = true)]
async fn failure_makes_no_pause_longer() {
    let failure = Err(StoreError::unavailable("no answer"));
    let store = ten_minutes(1, Duration::from_secs(15), failure).await;
    let reads = store.reads.load(Ordering::Relaxed);
    assert!(reads > 600 / (15 + 13), "{reads}");
}

#[tokio::test(start_paused = true)]
async fn few_queues_are_read_at_the_same_time() {
    let store = ten_minutes(50, 100 * MILLISECOND, Ok(MILLISECOND)).await;
    assert_eq!(
        store.most_running.load(Ordering::Relaxed),
        CONCURRENT_REFRESHES
    );
    let reads = store.reads.load(Ordering::Relaxed);
    assert!(reads > 50 * 600 / (10 + 5), "{reads}");
}

#[tokio::test(start_paused = true)]
async fn statistics_are_refreshed_although_the_groups_cannot_be_read() {
    let store = slow_store(Duration::ZERO, Ok(Duration::ZERO));
    let turns = Arc::new(Semaphore::new(1));
    let mut monitor = monitor(&store, &turns, QueueIndex(0));
    monitor.has_groups = true;
    monitor.refresh().await.expect("a refresh");
    let status = monitor.last_refresh.status().expect("statistics");
    assert_eq!(status.groups, None);
}

#[tokio::test(start_paused = true)]
async fn groups_that_cannot_be_read_stay_and_grow_old() {
    let store = slow_store(Duration::ZERO, Ok(Duration::ZERO));
    store.has_groups.store(true, Ordering::Relaxed);
    let turns = Arc::new(Semaphore::new(1));
    let mut monitor = monitor(&store, &turns, QueueIndex(0));
    monitor.has_groups = true;
    monitor.refresh().await.expect("a refresh");
    store.has_groups.store(false, Ordering::Relaxed);
    tokio::time::sleep(DAY).await;
    monitor.refresh().await.expect("a refresh");
    let status = monitor.last_refresh.status().expect("statistics");
    assert!(status.groups.is_some());
    assert_eq!((status.age, status.groups_age), (Duration::ZERO, DAY));
    assert_eq!(monitor.last_refresh.age(), DAY);
}

#[tokio::test(start_paused = true)]
async fn statistics_that_were_never_read_are_as_old_as_the_broker() {
    let store = slow_store(Duration::ZERO, Err(StoreError::unavailable("no answer")));
    let turns = Arc::new(Semaphore::new(1));
    let mut monitor = monitor(&store, &turns, QueueIndex(0));
    tokio::time::sleep(DAY).await;
    monitor.refresh_if_healthy().await;
    assert_eq!(monitor.last_refresh.age(), DAY);
}
