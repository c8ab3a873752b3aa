//! Recognizes calls that the broker has not processed, because it closed their connection.
//!
//! A broker that replaces a connection sends GOAWAY with the number of the last stream that it processes. tonic fails the calls on
//! later streams, and those that it has not sent yet. The broker has applied neither, so both are safe to send again.

use std::error::Error;

use tonic::Status;

/// Returns whether the call was not processed.
pub(crate) fn is_unprocessed(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        let is_unsent = error.downcast_ref().is_some_and(hyper::Error::is_canceled);
        let is_refused = |error: &h2::Error| error.is_go_away() && error.is_remote();
        if is_unsent || error.downcast_ref().is_some_and(is_refused) {
            return true;
        }
        cause = error.source();
    }
    false
}
