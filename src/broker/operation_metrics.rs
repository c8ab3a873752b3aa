//! Counters of the broker's work, for each queue: calls from clients, store operations, and items.
//!
//! The ratio of calls to store operations shows how well group commit works.

use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::QueueIndex;

/// A kind of store operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Leases items.
    Claim,
    /// Extends leases.
    Heartbeat,
    /// Ends leases: completions, failures and releases.
    Settle,
    /// Adds items.
    Enqueue,
    /// Ends expired leases and makes due items ready. The broker starts it, so it has no calls.
    Reap,
    /// Operators' commands: statistics, listings, redrives.
    Other,
}

impl Operation {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 6] = [
        Self::Claim,
        Self::Heartbeat,
        Self::Settle,
        Self::Enqueue,
        Self::Reap,
        Self::Other,
    ];

    /// Returns the kind's name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Heartbeat => "heartbeat",
            Self::Settle => "settle",
            Self::Enqueue => "enqueue",
            Self::Reap => "reap",
            Self::Other => "other",
        }
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
#[derive(Debug)]
pub(super) struct OperationMetrics(Box<[[Counters; Operation::ALL.len()]]>);

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
    pub(super) fn new(queues: usize) -> Self {
        Self((0..queues).map(|_| Default::default()).collect())
    }

    /// Counts a call from a client.
    pub(super) fn add_call(&self, queue: QueueIndex, operation: Operation) {
        let counters = &self.0[queue.0][operation as usize];
        counters.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a store operation that starts.
    pub(super) fn add_statement(&self, queue: QueueIndex, operation: Operation) {
        let counters = &self.0[queue.0][operation as usize];
        counters.statements.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the items of a store operation that has succeeded.
    pub(super) fn add_items(&self, queue: QueueIndex, operation: Operation, items: usize) {
        let counters = &self.0[queue.0][operation as usize];
        counters.items.fetch_add(items as u64, Ordering::Relaxed);
    }

    /// Reads the counters of one kind on one queue.
    pub(super) fn count(&self, queue: QueueIndex, operation: Operation) -> OperationCount {
        let counters = &self.0[queue.0][operation as usize];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OperationCount {
            calls: read(&counters.calls),
            statements: read(&counters.statements),
            items: read(&counters.items),
        }
    }
}
