//! What callers ask of the broker, in the broker's own words.

use std::time::Duration;

use uuid::Uuid;

use super::error::Error;
use super::limits;
use crate::config::Limits;
use crate::lease_id::Secret;
use crate::queue::QueueSpec;
use crate::store::{ClaimCall, NewItem};

/// A claim.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The queue's name.
    pub queue: String,
    /// Who claims: 1 to 128 characters.
    pub worker_id: String,
    /// The most items wanted: 1 to 1,000.
    pub max_items: usize,
    /// How long the leases last; the queue's default if none.
    pub lease_duration: Option<Duration>,
    /// How long to wait for an item; not at all if none.
    pub wait_timeout: Option<Duration>,
    /// After how long the caller will be gone, so that waiting on is in vain.
    pub time_to_deadline: Option<Duration>,
    /// Names this request, so that it can be sent again.
    pub request_id: Option<Uuid>,
}

impl ClaimRequest {
    /// Turns it into what the store is asked, if its fields can be used.
    pub(super) fn call(
        self,
        queue: &QueueSpec,
        limits: &Limits,
        secret: &Secret,
    ) -> Result<ClaimCall, Error> {
        limits.worker("worker_id", &self.worker_id)?;
        limits.count("max_items", self.max_items)?;
        let duration = limits::lease(queue, "lease_duration", self.lease_duration)?;
        if let Some(wait) = self.wait_timeout {
            limits.wait("wait_timeout", wait)?;
        }
        Ok(ClaimCall {
            token: match self.request_id {
                None => Uuid::new_v4(),
                Some(request) => secret.token_of_request(&queue.name, &self.worker_id, request),
            },
            repeat: self.request_id.is_some(),
            worker: self.worker_id,
            max_items: self.max_items,
            duration,
        })
    }
}

/// The end of one lease by completion.
#[derive(Clone, Debug)]
pub struct LeaseCompletion {
    /// The lease.
    pub lease_id: String,
    /// Queues and what to add to them in the same transaction.
    pub follow_ups: Vec<(String, NewItem)>,
}

/// The end of one lease by failure.
#[derive(Clone, Debug)]
pub struct LeaseFailure {
    /// The lease.
    pub lease_id: String,
    /// Kept on the row, cut at 1,024 characters.
    pub error: String,
    /// Instead of the queue's backoff.
    pub retry_delay: Option<Duration>,
    /// Whether the item is dead at once.
    pub dead_letter: bool,
}
