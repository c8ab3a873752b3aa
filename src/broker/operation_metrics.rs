//! Counters of the broker's work: calls from clients, store operations, and items.
//!
//! The ratio of calls to store operations shows how well group commit works.

use std::sync::atomic::{AtomicU64, Ordering};

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

/// The counters of one kind of store operation since the broker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCount {
    /// Calls received from clients, including calls that were refused.
    pub calls: u64,
    /// Store operations started, including those that failed. One operation can serve many calls.
    pub statements: u64,
    /// Results of the operations that succeeded: leases given, heartbeats and settlements answered (lost leases
    /// included), items added, items that the reaper or an operator changed or listed.
    pub items: u64,
}

/// The counters of all kinds, updated by any number of tasks.
///
/// The counters do not synchronize anything, so every access is relaxed.
#[derive(Debug, Default)]
pub(super) struct OperationMetrics([Counters; Operation::ALL.len()]);

/// The counters of one kind. They fill one cache line, so that cores that run different kinds do not share one.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counters {
    calls: AtomicU64,
    statements: AtomicU64,
    items: AtomicU64,
}

impl OperationMetrics {
    /// Counts a call from a client.
    pub(super) fn add_call(&self, operation: Operation) {
        let counters = &self.0[operation as usize];
        counters.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a store operation that starts.
    pub(super) fn add_statement(&self, operation: Operation) {
        let counters = &self.0[operation as usize];
        counters.statements.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the items of a store operation that has succeeded.
    pub(super) fn add_items(&self, operation: Operation, items: usize) {
        let counters = &self.0[operation as usize];
        counters.items.fetch_add(items as u64, Ordering::Relaxed);
    }

    /// Reads the counters of one kind.
    pub(super) fn count(&self, operation: Operation) -> OperationCount {
        let counters = &self.0[operation as usize];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OperationCount {
            calls: read(&counters.calls),
            statements: read(&counters.statements),
            items: read(&counters.items),
        }
    }
}
