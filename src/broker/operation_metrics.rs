//! Counters of the broker's work, for each queue: calls from clients, store operations, and items.
//!
//! The ratio of calls to store operations shows how well group commit works.

use std::iter::Sum;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lease_broker_model::named_enum;
use lease_broker_store::{QueueIndex, StoreError};

use super::queue_counters::QueueCounters;

named_enum! {
    /// A kind of store operation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Operation {
        /// Leases items.
        Claim = "claim",
        /// Extends leases.
        Heartbeat = "heartbeat",
        /// Ends leases: completions, failures and releases.
        Settle = "settle",
        /// Adds items.
        Enqueue = "enqueue",
        /// Ends expired leases and makes due items ready. The broker starts it, so it has no calls.
        Reap = "reap",
        /// Reads the statistics. Its calls and statements are not counted, but its durations are observed.
        Other = "other",
    }
}

/// The counters of one kind of store operation, on one queue or on all, since the broker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCount {
    /// Calls received from clients, including calls that were refused. A call that names no configured queue is not
    /// counted.
    pub calls: u64,
    /// Store operations started, including those that failed. One operation can serve many calls.
    pub statements: u64,
    /// Results of the operations that succeeded: leases given, heartbeats and settlements answered (lost leases
    /// included), items added, items that the reaper or an operator changed or listed.
    pub items: u64,
}

impl Sum for OperationCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, count| Self {
            calls: sum.calls + count.calls,
            statements: sum.statements + count.statements,
            items: sum.items + count.items,
        })
    }
}

/// The counters of all queues and kinds, updated by any number of tasks.
///
/// The counters do not synchronize anything, so every access is relaxed.
pub(super) struct OperationMetrics {
    queues: Box<[QueueMetrics]>,
    observer: OperationObserver,
    /// The store's clock minus the clock of this process, in milliseconds. `i64::MIN`: not known.
    clock_offset: AtomicI64,
}

/// Receives the duration of each store operation, and its error if it failed.
pub type OperationObserver =
    Arc<dyn Fn(QueueIndex, Operation, Duration, Option<&StoreError>) + Send + Sync>;

/// The counters of one queue.
#[derive(Debug, Default)]
struct QueueMetrics {
    operations: [Counters; Operation::ALL.len()],
    counters: QueueCounters,
}

/// The counters of one kind on one queue. They fill one cache line, so that cores that run different kinds do not share
/// one.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counters {
    calls: AtomicU64,
    statements: AtomicU64,
    items: AtomicU64,
}

impl OperationMetrics {
    /// Creates the counters of this number of queues.
    pub(super) fn new(queues: usize, observer: OperationObserver) -> Self {
        Self {
            queues: (0..queues).map(|_| QueueMetrics::default()).collect(),
            observer,
            clock_offset: AtomicI64::new(i64::MIN),
        }
    }

    /// Returns the counters of a queue that are not about one kind of operation.
    pub(super) fn queue(&self, queue: QueueIndex) -> &QueueCounters {
        &self.queues[queue.0].counters
    }

    /// Reports the end of a store operation to the observer.
    pub(super) fn observe(
        &self,
        queue: QueueIndex,
        operation: Operation,
        duration: Duration,
        error: Option<&StoreError>,
    ) {
        (self.observer)(queue, operation, duration, error);
    }

    /// Records the time that the store's clock showed in the middle of an operation that has just ended.
    pub(super) fn set_store_time(&self, store_millis: i64, duration: Duration) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let middle = now
            .unwrap_or_default()
            .saturating_sub(duration / 2)
            .as_millis();
        let middle = i64::try_from(middle).unwrap_or(i64::MAX);
        let offset = store_millis.saturating_sub(middle);
        self.clock_offset.store(offset, Ordering::Relaxed);
    }

    /// Returns the store's clock minus the clock of this process, in seconds. `None`: not known.
    pub(super) fn clock_offset_seconds(&self) -> Option<f64> {
        let offset = self.clock_offset.load(Ordering::Relaxed);
        let magnitude = Duration::from_millis(offset.unsigned_abs()).as_secs_f64();
        (offset != i64::MIN).then(|| magnitude.copysign(if offset < 0 { -1.0 } else { 1.0 }))
    }

    /// Counts a call from a client.
    pub(super) fn add_call(&self, queue: QueueIndex, operation: Operation) {
        let counters = &self.queues[queue.0].operations[operation as usize];
        counters.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a store operation that starts.
    pub(super) fn add_statement(&self, queue: QueueIndex, operation: Operation) {
        let counters = &self.queues[queue.0].operations[operation as usize];
        counters.statements.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the items of a store operation that has succeeded.
    pub(super) fn add_items(&self, queue: QueueIndex, operation: Operation, items: usize) {
        let counters = &self.queues[queue.0].operations[operation as usize];
        counters.items.fetch_add(items as u64, Ordering::Relaxed);
    }

    /// Reads the counters of one kind on one queue.
    pub(super) fn count(&self, queue: QueueIndex, operation: Operation) -> OperationCount {
        let counters = &self.queues[queue.0].operations[operation as usize];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OperationCount {
            calls: read(&counters.calls),
            statements: read(&counters.statements),
            items: read(&counters.items),
        }
    }
}
