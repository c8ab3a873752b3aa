//! The audit of what operators change.

use lease_broker_model::text::log_field;

use super::caller::AdminCaller;
use crate::broker::Error;
use crate::security::Rpc;

/// Writes a line about a change that was made, and returns its result. `detail`: what was changed, besides the queue.
pub(super) fn audited<T>(
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
