//! The audit of what operators change.

use lease_broker_model::text::log_field;
use lease_broker_proto as proto;
use lease_broker_store::Applied;

use crate::broker::Error;
use crate::grpc::caller::Caller;
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
pub(super) fn cancelled_keys(request: &proto::CancelLeasesRequest) -> String {
    let keys = request.cancellations.iter().map(|one| &*one.key);
    of_keys(&keys.collect::<Vec<_>>())
}

/// Makes a change and writes its line of the audit. `detail`: the changed part of the queue, such as a group or keys.
///
/// A line says `perhaps` if it is not known whether the change was made: after some errors, and if the future is dropped because the
/// caller went away or its deadline passed.
pub(super) async fn audited<T>(
    caller: &Caller,
    rpc: Rpc,
    queue: &str,
    detail: &str,
    reason: &str,
    change: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut line = Line {
        caller,
        rpc,
        queue,
        detail,
        reason,
        text: Some("perhaps changed by an operator"),
    };
    let outcome = change.await;
    match &outcome {
        Ok(_) => line.text = Some("changed by an operator"),
        Err(error) if error.applied() == Applied::No => line.text = None,
        Err(_) => {}
    }
    outcome
}

/// The line about a change. It is written when it is dropped.
struct Line<'a> {
    caller: &'a Caller,
    rpc: Rpc,
    queue: &'a str,
    detail: &'a str,
    reason: &'a str,
    /// The message of the line. `None`: the change was not made, and no line is written.
    text: Option<&'static str>,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let Some(text) = self.text else {
            return;
        };
        let peer = self.caller.address().map(tracing::field::display);
        let (identity, queue) = (log_field(self.caller.name()), log_field(self.queue));
        let (detail, reason) = (log_field(self.detail), log_field(self.reason));
        tracing::info!(
            target: "lease_broker::audit",
            event = "operator.change", peer, identity = &*identity, rpc = self.rpc.name(), queue = &*queue,
            detail = &*detail, reason = &*reason, "{text}"
        );
    }
}
