//! The caller of a call, as budgets see it: an identity, the address of callers without one, or a connection. It counts what
//! its calls hold of each budget, so that a caller that holds much is refused before others.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use crate::named_enum;

/// A caller, and what it holds.
#[derive(Debug)]
pub struct CallSource {
    number: SourceNumber,
    held: [AtomicI64; SharedBudget::ALL.len()],
}

/// Tells callers apart. Zero: the call has no caller, such as one from inside the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceNumber(pub u32);

named_enum! {
    /// A budget that callers share. The names are those of the settings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SharedBudget {
        /// Calls that extend or end leases.
        Settlements = "settlements",
        /// Calls that give work or add it.
        WorkingCalls = "working_calls",
        /// Claims that wait for items.
        WaitingClaims = "waiting_claims",
        /// Requests that have arrived in part.
        IncompleteRequests = "incomplete_requests",
        /// The memory of requests.
        RequestBytes = "request_bytes",
        /// The memory of responses.
        ResponseBytes = "response_bytes",
        /// Calls whose responses have not left.
        OpenStreams = "open_streams",
        /// Health checks whose answers have not left.
        HealthChecks = "health_checks",
        /// Clients that watch the health.
        HealthWatchers = "health_watchers",
        /// Streams of the reflection service.
        ReflectionStreams = "reflection_streams",
        /// Connections.
        Connections = "max_connections",
    }
}

impl CallSource {
    /// Creates a caller with a number of its own.
    pub fn new() -> Arc<Self> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        Arc::new(Self {
            number: SourceNumber(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)),
            held: Default::default(),
        })
    }

    /// Returns the number of this caller.
    pub fn number(&self) -> SourceNumber {
        self.number
    }

    /// Returns what the caller holds of a budget.
    pub fn held(&self, budget: SharedBudget) -> &AtomicI64 {
        &self.held[budget as usize]
    }
}
