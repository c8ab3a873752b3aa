//! The caller of a call, and the checks that need the message: the queue that it names, and its number of items.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::call_source::CallSource;
use lease_broker_model::lease_id::LeaseOwner;
use lease_broker_model::text::log_field;
use lease_broker_proto as proto;
use lease_broker_store::Beginning;
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Request, Status};

use super::status;
use crate::broker::CallContext;
use crate::call_trace::RecordedCall;
use crate::config::Role;
use crate::security::{Identity, OverLimit, Rpc};

/// The caller of a call. The guard adds it to the request.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) identity: Arc<Identity>,
    /// The address of the connection.
    pub(super) address: IpAddr,
}

impl Caller {
    /// Reports that a limit of the identity is reached. Returns the status for the caller.
    pub(super) fn over_limit(&self, rpc: Rpc, over: OverLimit) -> Status {
        let (identity, limit) = (log_field(&self.identity.name), over.limit);
        let peer = self.address;
        tracing::warn!(
            target: "lease_broker::audit",
            event = "limit.identity", %peer, identity = &*identity, rpc = rpc.name(), limit,
            "calls refused: limit of the identity"
        );
        status::identity_limit(over)
    }
}

/// The checks of the handlers of one server.
#[derive(Clone, Copy)]
pub(super) struct Checks {
    /// True: the server has a guard, so each request must have a caller.
    pub(super) needs_caller: bool,
}

impl Checks {
    /// Returns the caller. `None`: the server has no guard.
    pub(super) fn caller<T>(self, request: &Request<T>) -> Result<Option<&Caller>, Status> {
        let caller = request.extensions().get::<Caller>();
        if caller.is_none() && self.needs_caller {
            // A call that has come past the guard must not pass here.
            tracing::error!("bug found: a call has no caller");
            return Err(crate::broker::Error::Internal.into());
        }
        Ok(caller)
    }

    /// Returns the context of a call without an owner of leases.
    pub(super) fn context<T>(request: &Request<T>) -> CallContext {
        let extensions = request.extensions();
        CallContext {
            owner: LeaseOwner::default(),
            source: extensions.get::<Arc<CallSource>>().cloned(),
            recorded: extensions.get::<Arc<RecordedCall>>().cloned(),
            beginning: Beginning::default(),
        }
    }

    /// Checks that the caller has a role for the rpc on a queue. Returns the context of the call.
    ///
    /// The check comes before the queue is looked up, so that the answer is the same for a queue that does not exist.
    pub(super) fn permit<T>(
        self,
        request: &Request<T>,
        rpc: Rpc,
        queue: &str,
    ) -> Result<CallContext, Status> {
        let mut context = Self::context(request);
        let Some(caller) = self.caller(request)? else {
            return Ok(context);
        };
        if !caller.identity.rights.allow(rpc, queue) {
            return Err(denied(caller, rpc, Some(queue)));
        }
        context.owner = caller.identity.lease_owner.clone();
        Ok(context)
    }

    /// Counts the follow-ups of a call. Returns the names of their queues to which the caller may not add items. The first of them
    /// is reported.
    pub(super) fn denied_follow_ups(
        self,
        request: &Request<proto::CompleteRequest>,
    ) -> Result<HashSet<String>, Status> {
        let mut denied = HashSet::new();
        let Some(caller) = self.caller(request)? else {
            return Ok(denied);
        };
        let completions = request.get_ref().completions.iter();
        let follow_ups = completions.flat_map(|completion| &completion.follow_ups);
        let (mut last, mut items) = (None, 0);
        for follow_up in follow_ups {
            let queue = follow_up.queue.as_str();
            if last != Some(queue) && !caller.identity.rights.allow(Rpc::Enqueue, queue) {
                if denied.is_empty() {
                    report_denied(caller, Rpc::Enqueue.name(), Some(queue));
                }
                denied.insert(queue.to_owned());
            }
            last = Some(queue);
            items += 1;
        }
        let counted = caller.identity.count_items(items);
        counted.map_err(|over| caller.over_limit(Rpc::Complete, over))?;
        Ok(denied)
    }

    /// Counts the items that a call adds.
    pub(super) fn count_items(
        self,
        request: &Request<proto::EnqueueRequest>,
    ) -> Result<(), Status> {
        let Some(caller) = self.caller(request)? else {
            return Ok(());
        };
        let counted = caller.identity.count_items(request.get_ref().items.len());
        counted.map_err(|over| caller.over_limit(Rpc::Enqueue, over))
    }
}

/// The time between two claims of a caller whose claims may not wait. It is the longest time between two looks for items of a claim that
/// waits.
const PAUSE_WITHOUT_A_PLACE: Duration = Duration::from_secs(1);

/// Takes a place for a claim of this identity that waits. If there is none, the claim does not wait. Returns the place, and the time
/// after which a claim that did not wait should come again if it got no lease. Without it a caller would claim again at once, and so
/// use up its other limits.
pub(super) fn waiting_place(
    identity: Option<&Identity>,
    wait: &mut Option<Duration>,
) -> (Option<OwnedSemaphorePermit>, Option<Duration>) {
    let Some(identity) = identity.filter(|_| wait.is_some()) else {
        return (None, None);
    };
    let place = identity.waiting_place();
    if place.is_some() {
        return (place, None);
    }
    *wait = None;
    (None, Some(PAUSE_WITHOUT_A_PLACE))
}

/// Reports that a caller has no role for an rpc. Returns the status for the caller. `queue`: the one that the call names. `None`: the
/// caller has the role on no queue, so the request was not read.
pub(super) fn denied(caller: &Caller, rpc: Rpc, queue: Option<&str>) -> Status {
    denied_roles(caller, (rpc, rpc.name()), rpc.roles(), queue)
}

/// Reports that a caller may start operations on a queue, but no purge. Returns the status for the caller.
pub(super) fn purge_denied(caller: &Caller, queue: &str) -> Status {
    let rpc = Rpc::StartOperation;
    let action = (rpc, "StartOperation of a purge");
    denied_roles(caller, action, &[Role::Admin], Some(queue))
}

fn denied_roles(
    caller: &Caller,
    (rpc, action): (Rpc, &str),
    needed: &[Role],
    queue: Option<&str>,
) -> Status {
    report_denied(caller, rpc.name(), queue);
    let needed: Vec<_> = needed.iter().map(|role| Role::name(*role)).collect();
    status::role_missing(rpc.name(), action, &needed.join(" or "))
}

/// Reports that a caller has no role for an rpc or a service. `queue`: as for [`denied`].
pub(super) fn report_denied(caller: &Caller, rpc: &str, queue: Option<&str>) {
    let (identity, peer) = (log_field(&caller.identity.name), caller.address);
    let queue = log_field(queue.unwrap_or("(any)"));
    tracing::warn!(
        target: "lease_broker::audit",
        event = "auth.denied", %peer, identity = &*identity, rpc, queue = &*queue,
        "call refused: role missing"
    );
}
