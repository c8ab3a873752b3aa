//! A load on one layer: workers claim and settle items until all are completed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::JoinSet;

use super::layer::{Layer, Lease};

/// The most items that one call enqueues.
const MAX_ENQUEUED: usize = 1_000;
/// Pause after a claim without items, while items of other workers can become ready again.
const EMPTY_CLAIM_PAUSE: Duration = Duration::from_millis(2);

/// The load. Each flag means the same as in `lease-broker-bench`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Load {
    /// Run N workers; each has one call in flight
    #[arg(long, default_value_t = 64)]
    pub(crate) workers: usize,
    /// Claim up to N items per call
    #[arg(long, default_value_t = 1)]
    pub(crate) batch: usize,
    /// Enqueue N items, then run until all are completed
    #[arg(long, default_value_t = 100_000)]
    pub(crate) items: usize,
    /// Complete items and claim the next ones in one call
    #[arg(long)]
    pub(crate) next: bool,
    /// Fail this share of the items; a failed item is ready again immediately
    #[arg(long, default_value_t = 0.0)]
    pub(crate) fail_ratio: f64,
}

/// The result of a load.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// The keys of the completed items.
    pub(crate) completed: Vec<i64>,
    pub(crate) failed: usize,
    pub(crate) time: Duration,
}

impl Measured {
    /// Returns the number of settled items per second, as `lease-broker-bench` does.
    #[expect(clippy::cast_precision_loss, reason = "printed without decimals")]
    pub(crate) fn items_per_second(&self) -> f64 {
        (self.completed.len() + self.failed) as f64 / self.time.as_secs_f64()
    }
}

/// Puts the load on a layer.
///
/// # Panics
/// A call failed, a lease was lost, or an item was not completed exactly once.
pub(crate) async fn run(layer: Layer, load: &Load) -> Measured {
    let mut enqueued = Vec::new();
    while enqueued.len() < load.items {
        let count = (load.items - enqueued.len()).min(MAX_ENQUEUED);
        enqueued.extend(layer.enqueue(count).await);
    }
    let layer = Arc::new(layer);
    let unfinished = Arc::new(AtomicUsize::new(load.items));
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for number in 1..=load.workers {
        let worker = Worker {
            name: format!("bench-{number}"),
            layer: layer.clone(),
            load: *load,
            unfinished: unfinished.clone(),
        };
        workers.spawn(worker.run());
    }
    let mut all = Measured::default();
    while let Some(worker) = workers.join_next().await {
        let worker = worker.expect("no worker fails");
        all.completed.extend(worker.completed);
        all.failed += worker.failed;
    }
    all.time = start.elapsed();
    let left = layer.claim("bench", 1).await;
    assert!(left.is_empty(), "an item was left after the run");
    layer.stop().await;
    enqueued.sort_unstable();
    all.completed.sort_unstable();
    let once = all.completed == enqueued;
    assert!(once, "an item was not completed exactly once");
    all
}

struct Worker {
    name: String,
    layer: Arc<Layer>,
    load: Load,
    /// Number of items of all workers that are not completed.
    unfinished: Arc<AtomicUsize>,
}

impl Worker {
    async fn run(self) -> Measured {
        let mut measured = Measured::default();
        while self.is_unfinished() {
            let mut leases = self.layer.claim(&self.name, self.load.batch).await;
            if leases.is_empty() {
                tokio::time::sleep(EMPTY_CLAIM_PAUSE).await;
            }
            while !leases.is_empty() {
                leases = self.settle(leases, &mut measured).await;
            }
        }
        measured
    }

    /// Settles a batch. With `--next`, returns the next batch, which its completion has claimed.
    async fn settle(&self, leases: Vec<Lease>, measured: &mut Measured) -> Vec<Lease> {
        let fails = |_: &Lease| rand::random_bool(self.load.fail_ratio);
        let (failed, completed): (Vec<_>, Vec<_>) = leases.into_iter().partition(fails);
        if !failed.is_empty() {
            measured.failed += failed.len();
            self.layer.fail(failed).await;
        }
        if completed.is_empty() {
            return Vec::new();
        }
        let count = completed.len();
        measured.completed.extend(completed.iter().map(Lease::key));
        let next = if self.load.next && self.is_unfinished() {
            let (layer, batch) = (&self.layer, self.load.batch);
            layer.complete_and_claim(completed, &self.name, batch).await
        } else {
            self.layer.complete(completed).await;
            Vec::new()
        };
        self.unfinished.fetch_sub(count, Ordering::Relaxed);
        next
    }

    fn is_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed) > 0
    }
}
