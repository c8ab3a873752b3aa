//! The source of a call: the identity of its caller, or else the connection that it came on. Under overload, sources take
//! turns, and a source that takes most of a budget is refused before others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A source of calls. It counts the places that its calls take in the budgets that sources share.
#[derive(Debug)]
pub struct CallSource {
    number: SourceNumber,
    settlements: AtomicUsize,
    working_calls: AtomicUsize,
    waiting_claims: AtomicUsize,
}

/// Tells sources apart. Zero: the call has no source, such as one from inside the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceNumber(pub u32);

/// A budget that sources share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedBudget {
    /// Calls that extend or end leases.
    Settlements,
    /// Calls that give work or add it.
    WorkingCalls,
    /// Claims that wait for items.
    WaitingClaims,
}

impl CallSource {
    /// Creates a source with a number of its own.
    pub fn new() -> Arc<Self> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        Arc::new(Self {
            number: SourceNumber(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)),
            settlements: AtomicUsize::new(0),
            working_calls: AtomicUsize::new(0),
            waiting_claims: AtomicUsize::new(0),
        })
    }

    /// Returns the number of this source.
    pub fn number(&self) -> SourceNumber {
        self.number
    }

    /// Returns the number of places that this source has in a budget.
    pub fn places(&self, budget: SharedBudget) -> &AtomicUsize {
        match budget {
            SharedBudget::Settlements => &self.settlements,
            SharedBudget::WorkingCalls => &self.working_calls,
            SharedBudget::WaitingClaims => &self.waiting_claims,
        }
    }
}
