//! OperationMetrics what callers ask of the broker and what the broker asks of its store: how well calls share statements.

use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of operation of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Leasing items.
    Claim,
    /// Extending leases.
    Heartbeat,
    /// Ending leases: completions, failures and releases.
    Settle,
    /// Adding items.
    Enqueue,
    /// Ending what has expired, which no caller asks for.
    Reap,
    /// Whatever operators ask.
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

    /// Returns the kind's name, in lower case.
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

/// One kind of operation in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCount {
    /// Calls that came in from callers.
    pub calls: u64,
    /// Operations that the store was asked for.
    pub statements: u64,
    /// Leases given, extended or ended, items added: what the operations that succeeded carried.
    pub items: u64,
}

/// Counters that any number of tasks add to. They order nothing, so the cheapest kind of access does.
#[derive(Debug, Default)]
pub(super) struct OperationMetrics([Counters; Operation::ALL.len()]);

/// A cache line for each kind: different kinds run on different cores.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counters {
    calls: AtomicU64,
    statements: AtomicU64,
    items: AtomicU64,
}

impl OperationMetrics {
    pub(super) fn call(&self, of: Operation) {
        self.0[of as usize].calls.fetch_add(1, Ordering::Relaxed);
    }

    /// OperationMetrics an operation that begins.
    pub(super) fn statement(&self, of: Operation) {
        let counters = &self.0[of as usize];
        counters.statements.fetch_add(1, Ordering::Relaxed);
    }

    /// OperationMetrics what an operation carried.
    pub(super) fn items(&self, of: Operation, items: usize) {
        let counters = &self.0[of as usize];
        counters.items.fetch_add(items as u64, Ordering::Relaxed);
    }

    pub(super) fn of(&self, operation: Operation) -> OperationCount {
        let counters = &self.0[operation as usize];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OperationCount {
            calls: read(&counters.calls),
            statements: read(&counters.statements),
            items: read(&counters.items),
        }
    }
}
