//! Facts for the span of a lease, on their way from the call that names the lease to the operation that ends it.

use crate::lease_id::LeaseOrigin;
use crate::named_enum;
use crate::trace_context::Span;

/// Facts for the span of a lease, besides the lease itself.
#[derive(Clone, Debug)]
pub struct LeaseTrace {
    /// The claim that gave the lease.
    pub origin: LeaseOrigin,
    /// True if the span is recorded although the trace is not sampled.
    pub kept: bool,
    /// The span of the call, if it is recorded.
    pub call: Option<Span>,
    /// The worker's id, if the call names it.
    pub worker: Option<String>,
    /// True if the settlement returns the worker that held the lease, because the span is recorded.
    pub wants_owner: bool,
    /// The reason why the broker itself releases the lease. `None`: a worker ends it.
    pub release_reason: Option<ReleaseReason>,
}

impl LeaseTrace {
    /// Returns what is known about a lease of this claim.
    pub fn new(origin: LeaseOrigin) -> Self {
        Self {
            origin,
            kept: false,
            call: None,
            worker: None,
            wants_owner: false,
            release_reason: None,
        }
    }
}

named_enum! {
    /// The reason why the broker releases a lease that no worker has received. Spans and metrics have the names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ReleaseReason {
        /// The caller of the claim is gone.
        CallerGone = "caller_gone",
        /// The response has no room for the lease.
        ResponseFull = "response_full",
        /// The store answered after the broker had failed the claim.
        Abandoned = "abandoned",
    }
}
