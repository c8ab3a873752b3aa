//! Entry points for fuzzing: the checks and conversions of requests. They panic if a property does not hold.

use std::collections::HashSet;

use lease_broker_proto as proto;
use prost::Message as _;

use super::deadline::parse_timeout;
use super::intake::{MessageCounter, check_parts, check_request, decodes};
use super::messages;
use crate::security::Rpc;

/// Checks a whole request. A message that the check accepts can be decoded and converted, and its decoding takes no more memory
/// than the check says. `peak`: runs a function, and returns the largest number of bytes that it had allocated at a time.
pub(crate) fn request(rpc: Rpc, request: &[u8], peak: impl Fn(&mut dyn FnMut()) -> usize) {
    if let Some((message, bound)) = check_request(rpc, request) {
        let mut is_decoded = false;
        let taken = peak(&mut || is_decoded = decodes(rpc, message));
        assert!(is_decoded, "{rpc:?}: accepted and not decoded");
        assert!(taken <= bound, "{rpc:?}: {taken} bytes, not {bound}");
        converts(rpc, message);
    }
}

/// Checks a request as its parts arrive. The result is that of the whole.
pub(crate) fn split_request(rpc: Rpc, request: &[u8], part: usize) {
    let whole = check_request(rpc, request);
    assert_eq!(
        check_parts(rpc, request, part),
        whole,
        "{rpc:?}, parts of {part}"
    );
}

/// Counts the messages of a stream as its parts arrive. The result is that of the whole.
pub(crate) fn message_counter(stream: &[u8], part: usize, most: u32) {
    const MAX_MESSAGE_BYTES: usize = 1_000;
    let counter = || MessageCounter::new(most, MAX_MESSAGE_BYTES);
    let mut in_parts = counter();
    let accepted = stream.chunks(part).all(|part| in_parts.accepts(part));
    assert_eq!(accepted, counter().accepts(stream), "parts of {part}");
}

/// Reads the header `grpc-timeout`. It is at most eight digits of hours.
pub(crate) fn timeout(text: &str) {
    if let Some(timeout) = parse_timeout(text) {
        assert!(timeout.as_secs() <= 99_999_999 * 3_600, "{text}");
        assert!(text.len() <= 9 && text.is_ascii(), "{text}");
    }
}

/// Converts the parts of a message to the types of the broker.
fn converts(rpc: Rpc, message: &[u8]) {
    let decoded = match rpc {
        Rpc::ClaimBatch => proto::ClaimBatchRequest::decode(message)
            .map(|request| drop(messages::claim_from_proto(request, usize::MAX))),
        Rpc::Complete => proto::CompleteRequest::decode(message).map(|request| {
            let denied = HashSet::new();
            drop(messages::completions_from_proto(
                request.completions,
                &denied,
            ));
        }),
        Rpc::Fail => proto::FailRequest::decode(message)
            .map(|request| drop(messages::failures_from_proto(request.failures))),
        Rpc::Release => proto::ReleaseRequest::decode(message)
            .map(|request| drop(messages::releases_from_proto(request.releases))),
        Rpc::ReleaseClaims => proto::ReleaseClaimsRequest::decode(message)
            .map(|request| drop(messages::release_claims_from_proto(request))),
        Rpc::Enqueue => proto::EnqueueRequest::decode(message)
            .map(|request| drop(messages::new_items_from_proto(request.items, None))),
        Rpc::CancelLeases => proto::CancelLeasesRequest::decode(message)
            .map(|request| drop(messages::cancel_from_proto(request))),
        _ => Ok(()),
    };
    assert!(decoded.is_ok(), "{rpc:?}: decoded once and not twice");
}

/// Checks that the API accepts an item.
pub(crate) fn accepted_item(item: proto::NewItem) {
    let converted = messages::new_items_from_proto(vec![item], None);
    assert!(converted.is_ok(), "{:?}", converted.err());
}
