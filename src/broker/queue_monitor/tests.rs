//! Tests of the pauses between refreshes, with a store whose statistics take as long as a test says.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use lease_broker_model::key::Key;
use lease_broker_store::ItemFacts;

use super::*;

/// A store whose statistics arrive after `wait` and took `took`.
struct SlowStore {
    wait: Duration,
    took: Result<Duration, StoreError>,
    reads: AtomicUsize,
    running: AtomicUsize,
    most_running: AtomicUsize,
}

#[async_trait]
impl Inspect for SlowStore {
    fn parse_key(&self, _: QueueIndex, _: &str) -> Result<Key, String> {
        unimplemented!()
    }

    async fn timed_stats(&self, _: QueueIndex) -> Result<(Stats, Duration), StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let running = 1 + self.running.fetch_add(1, Ordering::Relaxed);
        self.most_running.fetch_max(running, Ordering::Relaxed);
        tokio::time::sleep(self.wait).await;
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.took.clone().map(|took| (Stats::default(), took))
    }

    async fn exact_stats(&self, _: QueueIndex) -> Result<Stats, StoreError> {
        unimplemented!()
    }

    async fn list(&self, _: QueueIndex, _: State, _: usize) -> Result<Vec<ListedItem>, StoreError> {
        unimplemented!()
    }

    async fn list_after(
        &self,
        _: QueueIndex,
        _: State,
        _: Option<Key>,
        _: usize,
    ) -> Result<Vec<ListedItem>, StoreError> {
        unimplemented!()
    }

    async fn item_facts(&self, _: QueueIndex, _: Key) -> Result<ItemFacts, StoreError> {
        unimplemented!()
    }
}

/// Runs the monitors of this number of queues for ten minutes, with an interval of 10 s.
async fn ten_minutes(
    queues: usize,
    wait: Duration,
    took: Result<Duration, StoreError>,
) -> Arc<SlowStore> {
    let store = Arc::new(SlowStore {
        wait,
        took,
        reads: AtomicUsize::new(0),
        running: AtomicUsize::new(0),
        most_running: AtomicUsize::new(0),
    });
    let turns = Arc::new(Semaphore::new(CONCURRENT_REFRESHES));
    let metrics = OperationMetrics::new(queues, Arc::new(|_, _, _, _| ()));
    let metrics = Arc::new(metrics);
    let stop = CancellationToken::new();
    for queue in 0..queues {
        let monitor = QueueMonitor {
            store: store.clone(),
            health: Arc::new(StoreHealth::new()),
            turns: turns.clone(),
            queue: QueueIndex(queue),
            queue_name: String::new(),
            interval: Duration::from_secs(10),
            max_lease_age: None,
            last_refresh: Arc::default(),
            metrics: metrics.clone(),
            reported: HashMap::new(),
        };
        tokio::spawn(monitor.run(stop.clone()));
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    stop.cancel();
    store
}

const MILLISECOND: Duration = Duration::from_millis(1);

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
