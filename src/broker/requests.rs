//! What callers ask of the broker, in the broker's own words.

use std::time::Duration;

use uuid::Uuid;

use crate::store::NewItem;

/// A claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The queue's name.
    pub queue: String,
    /// Who claims: 1 to 128 characters.
    pub worker: String,
    /// The most items wanted: 1 to 1,000.
    pub max_items: usize,
    /// How long the leases last; the queue's default if none.
    pub lease: Option<Duration>,
    /// How long to wait for an item; not at all if none.
    pub wait: Option<Duration>,
    /// After how long the caller will be gone, so that waiting on is in vain.
    pub patience: Option<Duration>,
    /// Names this request, so that it can be sent again.
    pub request_id: Option<Uuid>,
}

/// The end of one lease by completion.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The lease.
    pub lease_id: String,
    /// Queues and what to add to them in the same transaction.
    pub follow_ups: Vec<(String, NewItem)>,
}

/// The end of one lease by failure.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The lease.
    pub lease_id: String,
    /// Kept on the row, cut at 1,024 characters.
    pub error: String,
    /// Instead of the queue's backoff.
    pub retry_delay: Option<Duration>,
    /// Whether the item is dead at once.
    pub dead_letter: bool,
}
