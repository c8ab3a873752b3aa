//! The broker's requests, as `grpc` passes them in: a claim, and the entries of the calls that settle leases.

use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{LeaseOwner, Secret};
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{ClaimCall, MAX_CLAIM_GROUPS, NewItem, Refusal};
use lease_broker_value::Value;
use uuid::Uuid;

use super::error::Error;
use super::limits::{RequestLimits, check_lease_duration, check_nul};

/// A request to lease items.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The queue's name.
    pub queue: String,
    /// The worker that gets the leases: 1 to `limits.max_worker_id` UTF-16 units.
    pub worker_id: String,
    /// The number of items wanted: 1 to `limits.max_items`.
    pub max_items: usize,
    /// The maximum size of the leases in the response, in bytes.
    pub max_bytes: usize,
    /// Duration of the leases, within the queue's bounds. `None`: the queue's default.
    pub lease_duration: Option<Duration>,
    /// Time to wait until at least one item is ready, up to `limits.max_wait`. `None`: the claim does not wait.
    pub wait_timeout: Option<Duration>,
    /// Identifies the request when its caller sends it again after a lost reply. The repeated request gets those leases
    /// of the first one that have not expired. `None`: a repeated request gets other items.
    pub request_id: Option<Uuid>,
    /// Only items of these groups, as text: at most [`MAX_CLAIM_GROUPS`]. Empty: of all groups.
    pub groups: Vec<String>,
    /// The maximum number of consecutive items of a group, as a run. The queue bounds it. 0 and 1: one item of a group.
    pub max_run: usize,
}

impl ClaimRequest {
    /// Checks the fields and returns the store's form of this request. `parse_group` parses the name of a group.
    ///
    /// # Errors
    /// [`Error::InvalidField`] or [`Error::LimitExceeded`] for the first field that is out of bounds.
    pub(super) fn into_claim_call(
        self,
        owner: &LeaseOwner,
        queue: &QueueSpec,
        limits: &RequestLimits,
        secret: &Secret,
        parse_group: impl Fn(&str) -> Result<Key, String>,
    ) -> Result<ClaimCall, Error> {
        limits.check_worker_id("worker_id", &self.worker_id)?;
        limits.check_max_items("max_items", self.max_items)?;
        if let Some(duration) = self.lease_duration {
            check_lease_duration(queue, "lease_duration", duration)?;
        }
        if let Some(wait) = self.wait_timeout {
            limits.check_wait("wait_timeout", wait)?;
        }
        let token = match self.request_id {
            None => Uuid::new_v4(),
            Some(request) => secret.token_of_request(&queue.name, owner, &self.worker_id, request),
        };
        Ok(ClaimCall {
            max_run: self.max_run,
            groups: claim_groups(&self.groups, token, parse_group)?,
            token,
            has_request_id: self.request_id.is_some(),
            worker: self.worker_id,
            max_items: self.max_items,
            max_bytes: self.max_bytes,
            duration: self.lease_duration.unwrap_or(queue.lease.default),
        })
    }
}

/// Returns the groups that a claim names. A claim begins with the first. The token decides which group that is, so it differs from claim to
/// claim.
///
/// # Errors
/// [`Error::InvalidField`] or [`Error::LimitExceeded`] (`groups`).
fn claim_groups(
    groups: &[String],
    token: Uuid,
    parse: impl Fn(&str) -> Result<Key, String>,
) -> Result<Vec<Key>, Error> {
    if groups.len() > MAX_CLAIM_GROUPS {
        let count = groups.len();
        let problem = format!("{count} groups exceed the limit of {MAX_CLAIM_GROUPS} groups");
        return Err(Error::limit("groups", problem, &count, &MAX_CLAIM_GROUPS));
    }
    let parsed = groups.iter().enumerate().map(|(index, group)| {
        let field = format!("groups[{index}]");
        check_nul(&field, group)?;
        parse(group).map_err(|problem| Error::invalid(field, problem))
    });
    let mut parsed: Vec<Key> = parsed.collect::<Result<_, _>>()?;
    if let Some(first) = token.as_u128().checked_rem(parsed.len() as u128) {
        parsed.rotate_left(usize::try_from(first).unwrap_or_default());
    }
    Ok(parsed)
}

/// The completion of one lease.
#[derive(Clone, Debug)]
pub struct LeaseCompletion {
    /// The lease's id.
    pub lease_id: String,
    /// Values to write into the item's row, by column. `Err`: one of them is malformed, so the completion is refused.
    pub columns: Result<Vec<(String, Value)>, Refusal>,
    /// Items to add in the transaction that completes the lease, each with the name of its queue. `Err`: one of them is
    /// malformed, so the completion is refused.
    pub follow_ups: Result<Vec<(String, NewItem)>, Refusal>,
}

/// The renewal of one lease.
#[derive(Clone, Debug)]
pub struct LeaseRenewal {
    /// The lease's id.
    pub lease_id: String,
    /// The checkpoint to store, up to the queue's maximum size. Empty: the stored one is removed. `None`: it stays.
    pub checkpoint: Option<Vec<u8>>,
}

/// The failure of one lease.
#[derive(Clone, Debug)]
pub struct LeaseFailure {
    /// The lease's id.
    pub lease_id: String,
    /// The error message, stored in the row. Only the first 1,024 characters are kept.
    pub error: String,
    /// Delay until the next attempt. `None`: the queue's backoff. `Err`: it is malformed, so the failure is refused.
    pub retry_delay: Result<Option<Duration>, Refusal>,
    /// True: the item becomes a dead letter now, even if attempts are left.
    pub dead_letter: bool,
    /// Values to write into the item's row, by column. `Err`: one of them is malformed, so the failure is refused.
    pub columns: Result<Vec<(String, Value)>, Refusal>,
    /// The checkpoint to store, as in [`LeaseRenewal`].
    pub checkpoint: Option<Vec<u8>>,
}

/// A request to take leases away from their workers.
#[derive(Clone, Debug)]
pub struct CancelRequest {
    /// The queue's name.
    pub queue: String,
    /// The keys of the leased items, as text, each with the fencing token of the lease. `None`: the lease that is held.
    pub leases: Vec<(String, Option<i64>)>,
    /// Delay until the items are ready. `None`: they are ready immediately.
    pub delay: Option<Duration>,
    /// True: the items become dead letters.
    pub dead_letter: bool,
    /// The reason, stored in the rows. Only the first 1,024 characters are kept. Empty: a default text.
    pub reason: String,
}

/// The result of adding items.
#[derive(Clone, Debug)]
pub struct Enqueued {
    /// The keys, in request order.
    pub keys: Vec<Key>,
    /// True: an earlier call with the same request id has added the items, and this one added nothing.
    pub already_added: bool,
}

/// A request to release every lease of claims.
#[derive(Clone, Debug)]
pub struct ReleaseClaimsRequest {
    /// The queue's name.
    pub queue: String,
    /// The worker that sent the claims.
    pub worker_id: String,
    /// The request ids of the claims.
    pub request_ids: Vec<Uuid>,
}

/// The release of one lease.
#[derive(Clone, Debug)]
pub struct LeaseRelease {
    /// The lease's id.
    pub lease_id: String,
    /// Delay until the item is ready. `None`: it is ready immediately. `Err`: it is malformed, so the release is refused.
    pub delay: Result<Option<Duration>, Refusal>,
    /// The checkpoint to store, as in [`LeaseRenewal`].
    pub checkpoint: Option<Vec<u8>>,
}
