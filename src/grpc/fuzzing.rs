//! Entry points for fuzzing: the checks and conversions of requests. They panic if a property does not hold.

use lease_broker_proto as proto;
use prost::Message as _;

use super::intake::check_request;
use super::messages;
use crate::security::Rpc;

/// Checks a whole request. A message that the check accepts can be decoded and converted.
pub(crate) fn request(rpc: Rpc, request: &[u8]) {
    if let Some(message) = check_request(rpc, request) {
        assert!(decodes(rpc, message), "{rpc:?}: accepted and not decoded");
    }
}

/// Decodes a message, and converts its parts to the types of the broker. Returns false if it cannot be decoded.
fn decodes(rpc: Rpc, message: &[u8]) -> bool {
    match rpc {
        Rpc::ClaimBatch => proto::ClaimBatchRequest::decode(message)
            .map(|request| drop(messages::claim_from_proto(request, None, usize::MAX)))
            .is_ok(),
        Rpc::Heartbeat => proto::HeartbeatRequest::decode(message).is_ok(),
        Rpc::Complete => proto::CompleteRequest::decode(message)
            .map(|request| drop(messages::completions_from_proto(request.completions)))
            .is_ok(),
        Rpc::Fail => proto::FailRequest::decode(message)
            .map(|request| drop(messages::failures_from_proto(request.failures)))
            .is_ok(),
        Rpc::Release => proto::ReleaseRequest::decode(message)
            .map(|request| drop(messages::releases_from_proto(request.releases)))
            .is_ok(),
        Rpc::ReleaseClaims => proto::ReleaseClaimsRequest::decode(message)
            .map(|request| drop(messages::release_claims_from_proto(request)))
            .is_ok(),
        Rpc::Wake => proto::WakeRequest::decode(message).is_ok(),
        Rpc::Enqueue => proto::EnqueueRequest::decode(message)
            .map(|request| drop(messages::new_items_from_proto(request.items, None)))
            .is_ok(),
        Rpc::CancelLeases => proto::CancelLeasesRequest::decode(message)
            .map(|request| drop(messages::cancel_from_proto(request)))
            .is_ok(),
    }
}

/// Checks that the API accepts an item.
pub(crate) fn accepted_item(item: proto::NewItem) {
    let converted = messages::new_items_from_proto(vec![item], None);
    assert!(converted.is_ok(), "{:?}", converted.err());
}
