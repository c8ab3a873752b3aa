//! The caller of a call: its rights, its limits, and its name for the log and the audit.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::lease_id::LeaseOwner;
use lease_broker_model::text::log_field;
use lease_broker_proto as proto;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;
use tracing::field::display;

use super::status;
use crate::broker::Actor;
use crate::config::Role;
use crate::security::{Identity, OverLimit, Rpc};

/// The time between two claims of a caller whose claims may not wait. It is the longest time between two looks for items of a claim that
/// waits.
const PAUSE_WITHOUT_A_PLACE: Duration = Duration::from_secs(1);

/// The caller of a call. The intake adds it to each request.
#[derive(Clone)]
pub struct Caller {
    /// `None`: the caller may do everything, because the service has no identities, or because it has opened the database itself.
    identity: Option<Arc<Identity>>,
    /// The name of a caller without an identity. Empty: it is not known.
    name: String,
    /// The address of the caller. `None`: it is not known.
    address: Option<IpAddr>,
}

impl Caller {
    /// A caller with the rights of an identity.
    pub fn of(identity: Arc<Identity>, address: IpAddr) -> Self {
        Self {
            identity: Some(identity),
            name: String::new(),
            address: Some(address),
        }
    }

    /// A caller that may do everything.
    pub fn unrestricted() -> Self {
        Self::named(String::new())
    }

    /// A caller of this name that may do everything.
    pub fn named(name: String) -> Self {
        Self {
            identity: None,
            name,
            address: None,
        }
    }

    /// A caller at this address that may do everything.
    pub fn at(address: IpAddr) -> Self {
        Self {
            address: Some(address),
            ..Self::unrestricted()
        }
    }

    /// Returns the identity. `None`: the caller may do everything.
    pub(super) fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    /// Returns the address. `None`: it is not known.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns the name of the identity. Empty: the service has no identities.
    pub fn name(&self) -> &str {
        self.identity()
            .map_or(&self.name, |identity| &identity.name)
    }

    pub(super) fn actor(&self) -> Actor {
        Actor {
            name: self.name().to_owned(),
        }
    }

    /// Returns the owner of the leases that the caller claims.
    pub(super) fn lease_owner(&self) -> LeaseOwner {
        let owner = self.identity().map(|identity| identity.lease_owner.clone());
        owner.unwrap_or_default()
    }

    /// Returns whether the caller may send the rpc for this queue.
    pub fn may(&self, rpc: Rpc, queue: &str) -> bool {
        self.identity()
            .is_none_or(|identity| identity.rights.allow(rpc, queue))
    }

    /// Returns whether the caller may delete items of this queue.
    pub fn may_purge(&self, queue: &str) -> bool {
        self.identity()
            .is_none_or(|identity| identity.rights.allow_purge(queue))
    }

    /// Returns whether the caller may send the rpc for some queue.
    pub fn may_somewhere(&self, rpc: Rpc) -> bool {
        self.identity()
            .is_none_or(|identity| identity.rights.allow_somewhere(rpc))
    }

    /// Checks the role for an rpc on a queue. The check comes before the queue is looked up, so that the answer is the same for a queue
    /// that does not exist.
    pub(super) fn check(&self, rpc: Rpc, queue: &str) -> Result<(), Status> {
        let is_allowed = self.may(rpc, queue);
        self.allow(is_allowed, (rpc, rpc.name()), rpc.roles(), Some(queue))
    }

    /// Checks the role for deleting items of a queue. Starting the operation needs a role too.
    pub(super) fn check_purge(&self, queue: &str) -> Result<(), Status> {
        let action = (Rpc::StartOperation, "StartOperation of a purge");
        let is_allowed = self.may_purge(queue);
        self.allow(is_allowed, action, &[Role::Admin], Some(queue))
    }

    /// Checks the role for an rpc on any queue.
    pub(super) fn check_somewhere(&self, rpc: Rpc) -> Result<(), Status> {
        let is_allowed = self.may_somewhere(rpc);
        self.allow(is_allowed, (rpc, rpc.name()), rpc.roles(), None)
    }

    /// Refuses a call that is not allowed, and reports it.
    fn allow(
        &self,
        is_allowed: bool,
        (rpc, action): (Rpc, &str),
        needed: &[Role],
        queue: Option<&str>,
    ) -> Result<(), Status> {
        if is_allowed {
            return Ok(());
        }
        self.report_denied(rpc.name(), queue);
        let needed: Vec<_> = needed.iter().map(|role| Role::name(*role)).collect();
        Err(status::role_missing(
            rpc.name(),
            action,
            &needed.join(" or "),
        ))
    }

    /// Reports that the caller has no role for an rpc or a service. `queue`: the one that the call names. `None`: the caller has the role
    /// on no queue, so the request was not read.
    pub(super) fn report_denied(&self, rpc: &str, queue: Option<&str>) {
        let (identity, peer) = (log_field(self.name()), self.address.map(display));
        let queue = log_field(queue.unwrap_or("(any)"));
        tracing::warn!(
            target: "lease_broker::audit",
            event = "auth.denied", peer, identity = &*identity, rpc, queue = &*queue,
            "call refused: role missing"
        );
    }

    /// Counts a call against a limit of the caller's identity.
    pub(super) fn count(
        &self,
        rpc: Rpc,
        count: impl FnOnce(&Identity) -> Result<(), OverLimit>,
    ) -> Result<(), Status> {
        let Some(Err(over)) = self.identity().map(count) else {
            return Ok(());
        };
        let (identity, limit) = (log_field(self.name()), over.limit);
        let peer = self.address.map(display);
        tracing::warn!(
            target: "lease_broker::audit",
            event = "limit.identity", peer, identity = &*identity, rpc = rpc.name(), limit,
            "calls refused: limit of the identity"
        );
        Err(status::identity_limit(over))
    }

    /// Counts the follow-ups of a call. Returns the names of their queues to which the caller may not add items. The first of them
    /// is reported.
    pub(super) fn denied_follow_ups(
        &self,
        completions: &[proto::Completion],
    ) -> Result<HashSet<String>, Status> {
        let mut denied = HashSet::new();
        let (mut last, mut items) = (None, 0);
        for follow_up in completions.iter().flat_map(|one| &one.follow_ups) {
            let queue = follow_up.queue.as_str();
            if last != Some(queue) && !self.may(Rpc::Enqueue, queue) {
                if denied.is_empty() {
                    self.report_denied(Rpc::Enqueue.name(), Some(queue));
                }
                denied.insert(queue.to_owned());
            }
            last = Some(queue);
            items += 1;
        }
        self.count(Rpc::Complete, |identity| identity.count_items(items))?;
        Ok(denied)
    }

    /// Takes a place for a claim that waits. If there is none, the claim does not wait. Returns the place, and the time after which a
    /// claim that did not wait should come again if it got no lease. Without it a caller would claim again at once, and so use up its
    /// other limits.
    pub(super) fn waiting_place(
        &self,
        wait: &mut Option<Duration>,
    ) -> (Option<OwnedSemaphorePermit>, Option<Duration>) {
        let Some(identity) = self.identity().filter(|_| wait.is_some()) else {
            return (None, None);
        };
        let place = identity.waiting_place();
        if place.is_some() {
            return (place, None);
        }
        *wait = None;
        (None, Some(PAUSE_WITHOUT_A_PLACE))
    }
}
