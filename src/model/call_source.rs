//! The caller of a call, as budgets see it: an identity, the address of callers without one, or a connection. It counts what
//! its calls hold of each budget, so that a caller that holds much is refused before others.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// A caller, and what it holds.
#[derive(Debug)]
pub struct CallSource {
    number: SourceNumber,
    held: [AtomicI64; SharedBudget::ALL.len()],
}

/// Tells callers apart. Zero: the call has no caller, such as one from inside the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceNumber(pub u32);

/// A budget that callers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedBudget {
    /// Calls that extend or end leases.
    Settlements,
    /// Calls that give work or add it.
    WorkingCalls,
    /// Claims that wait for items.
    WaitingClaims,
    /// Requests that have arrived in part.
    IncompleteRequests,
    /// The memory of requests.
    RequestBytes,
    /// The memory of responses.
    ResponseBytes,
    /// Calls whose responses have not left.
    OpenStreams,
    /// Health checks whose answers have not left.
    HealthChecks,
    /// Clients that watch the health.
    HealthWatchers,
    /// Streams of the reflection service.
    ReflectionStreams,
    /// Connections.
    Connections,
}

impl SharedBudget {
    /// All budgets.
    pub const ALL: [Self; 11] = [
        Self::Settlements,
        Self::WorkingCalls,
        Self::WaitingClaims,
        Self::IncompleteRequests,
        Self::RequestBytes,
        Self::ResponseBytes,
        Self::OpenStreams,
        Self::HealthChecks,
        Self::HealthWatchers,
        Self::ReflectionStreams,
        Self::Connections,
    ];

    /// Returns the setting of the section `budgets`.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Settlements => "settlements",
            Self::WorkingCalls => "working_calls",
            Self::WaitingClaims => "waiting_claims",
            Self::IncompleteRequests => "incomplete_requests",
            Self::RequestBytes => "request_bytes",
            Self::ResponseBytes => "response_bytes",
            Self::OpenStreams => "open_streams",
            Self::HealthChecks => "health_checks",
            Self::HealthWatchers => "health_watchers",
            Self::ReflectionStreams => "reflection_streams",
            Self::Connections => "max_connections",
        }
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
