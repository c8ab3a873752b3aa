//! The audit of what operators change.

use lease_broker_model::text::log_field;
use lease_broker_proto as proto;

use super::caller::AdminCaller;
use crate::broker::Error;
use crate::security::Rpc;

/// The number of keys that a line names.
const MAX_KEYS: usize = 10;

/// Names the items of a change.
pub(super) fn of_keys(keys: &[&str]) -> String {
    let named = keys.iter().take(MAX_KEYS).copied();
    let named = named.collect::<Vec<_>>().join(", ");
    match keys.len().checked_sub(MAX_KEYS) {
        None | Some(0) => named,
        Some(more) => format!("{named} and {more} more"),
    }
}

/// Names the items whose leases are taken away.
pub(in crate::grpc) fn cancelled_keys(request: &proto::CancelLeasesRequest) -> String {
    let keys = request.cancellations.iter().map(|one| &*one.key);
    of_keys(&keys.collect::<Vec<_>>())
}

/// Writes a line about a change that was made, and returns its result. `detail`: what was changed, besides the queue.
pub(in crate::grpc) fn audited<T>(
    caller: &AdminCaller,
    rpc: Rpc,
    queue: &str,
    detail: &str,
    reason: &str,
    outcome: Result<T, Error>,
) -> Result<T, Error> {
    if outcome.is_ok() {
        let peer = caller.caller.as_ref().map(|caller| caller.address);
        let peer = peer.map(tracing::field::display);
        let (identity, queue) = (log_field(caller.name()), log_field(queue));
        let (detail, reason) = (log_field(detail), log_field(reason));
        tracing::info!(
            target: "lease_broker::audit",
            event = "operator.change", peer, identity = &*identity, rpc = rpc.name(), queue = &*queue, detail = &*detail,
            reason = &*reason, "changed by an operator"
        );
    }
    outcome
}
