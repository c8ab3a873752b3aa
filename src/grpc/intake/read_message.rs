//! Reads the message of a request that arrives in several parts.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use lease_broker_model::call_source::CallSource;
use tonic::{Code, Status};

use super::limits::{IntakeLimits, Message, RequestBody};
use crate::broker::{Error, Held, Importance};
use crate::grpc::connections::Connection;
use crate::grpc::status;

/// The length of the header of a message in bytes. The header has a flag for compression, and the length of the message.
pub(super) const HEADER_BYTES: usize = 5;
/// The bytes of a refused request that are read and dropped, and the time limit for it. A proxy that cannot send the rest of
/// a request reports its own error instead of the status.
const MAX_DROPPED_BYTES: usize = 4 << 20;
const MAX_DROP_TIME: Duration = Duration::from_secs(1);

impl IntakeLimits {
    /// Receives the rest of a call's request, which has a place among the incomplete requests until then. `first`: the part that
    /// has been read.
    pub(super) async fn receive<B: RequestBody>(
        &self,
        connection: &Connection,
        source: &Arc<CallSource>,
        importance: Importance,
        body: &mut B,
        first: Option<Bytes>,
    ) -> Result<Message, Status> {
        let refuse = || self.broker.budgets().refuse("incomplete_requests");
        let place = self.incomplete.take(source).ok_or_else(refuse)?;
        let limits = (self.max_message_bytes, importance);
        let charge = self.charge(source);
        tokio::select! {
            biased;
            message = self.read(connection, charge, body, first, limits) => message,
            () = place.lost() => Err(refuse().into()),
        }
    }

    /// Receives a whole request of a standard service.
    pub(in crate::grpc) async fn receive_small<B: RequestBody>(
        &self,
        connection: &Connection,
        mut body: B,
        max_message_bytes: usize,
    ) -> Result<Bytes, Status> {
        let limits = (max_message_bytes, Importance::Other);
        let charge = self.charge(&connection.account.source);
        let message = self
            .read(connection, charge, &mut body, None, limits)
            .await?;
        whole_message(&message.body)?;
        Ok(message.body)
    }

    /// Reads the rest of a message, and charges its bytes. `first`: the part that has been read.
    async fn read<B: RequestBody>(
        &self,
        connection: &Connection,
        charge: Held,
        body: &mut B,
        first: Option<Bytes>,
        limits: (usize, Importance),
    ) -> Result<Message, Status> {
        let read = async {
            let read = self.read_all(connection, charge, body, first, limits);
            let message = read.await;
            if let Err(status) = &message {
                if status.code() == Code::Cancelled {
                    connection.count_cut_request();
                }
                let dropping = drop_rest(connection, body);
                let _ = tokio::time::timeout(MAX_DROP_TIME, dropping).await;
            }
            message
        };
        tokio::select! {
            biased;
            message = read => message,
            () = self.stop.cancelled() => Err(Error::Draining.into()),
            () = tokio::time::sleep(self.request_timeout) => {
                Err(status::incomplete(self.request_timeout))
            }
        }
    }

    async fn read_all<B: RequestBody>(
        &self,
        connection: &Connection,
        mut charge: Held,
        body: &mut B,
        first: Option<Bytes>,
        (max_message_bytes, importance): (usize, Importance),
    ) -> Result<Message, Status> {
        let mut message = BytesMut::new();
        let mut part = first;
        loop {
            if let Some(part) = part.take() {
                let length = message.len() + part.len();
                if length > message.capacity() {
                    // Twice the capacity, so that many small parts are not copied many times.
                    let capacity = length.max(2 * message.capacity());
                    let capacity = capacity.min(HEADER_BYTES + max_message_bytes).max(length);
                    if !charge.raise_to(capacity, importance) {
                        return Err(self.broker.budgets().refuse("request_bytes").into());
                    }
                    message.reserve(capacity - message.len());
                }
                message.extend_from_slice(&part);
                check_header(&message, max_message_bytes)?;
            }
            match body.frame().await {
                Some(Ok(frame)) => {
                    part = frame.into_data().ok();
                    connection.count_request_bytes(part.as_ref().map_or(0, Bytes::len));
                }
                None if body.is_end_stream() => break,
                // The stream was reset. hyper hides a reset without an error: the body ends, but not its stream. The caller does not
                // read this answer. The metrics count it.
                _ => return Err(Status::cancelled("the caller has cancelled the call")),
            }
        }
        let body = message.freeze();
        Ok(Message { body, charge })
    }
}

/// Splits the received part of a request into flag, announced length and message. `None`: the header is incomplete.
fn split_header(received: &[u8]) -> Option<(u8, usize, &[u8])> {
    let ([flag, length @ ..], message) = received.split_first_chunk::<HEADER_BYTES>()?;
    Some((*flag, u32::from_be_bytes(*length) as usize, message))
}

/// Checks the received part of a request: its flag, its announced length, and that there is only one message.
pub(super) fn check_header(received: &[u8], max_message_bytes: usize) -> Result<(), Status> {
    let Some((flag, length, message)) = split_header(received) else {
        return Ok(());
    };
    if flag != 0 {
        let problem =
            "the message is compressed, or not in the format of gRPC; compression is not supported";
        return Err(status::malformed(problem.to_owned()));
    }
    if length > max_message_bytes {
        return Err(status::message_too_large(length, max_message_bytes));
    }
    if message.len() > length {
        let problem = "the request has bytes after its message";
        return Err(status::malformed(problem.to_owned()));
    }
    Ok(())
}

/// Returns the message of a request that [`check_header`] has accepted. Fails if the request has not arrived completely.
pub(super) fn whole_message(received: &[u8]) -> Result<&[u8], Status> {
    match split_header(received) {
        Some((_, length, message)) if length == message.len() => Ok(message),
        _ => {
            let problem = "the request ended before its last byte";
            Err(status::malformed(problem.to_owned()))
        }
    }
}

async fn drop_rest<B: RequestBody>(connection: &Connection, body: &mut B) {
    let mut dropped = 0;
    while dropped < MAX_DROPPED_BYTES
        && let Some(Ok(frame)) = body.frame().await
    {
        let length = frame.data_ref().map_or(0, Bytes::len);
        connection.count_request_bytes(length);
        dropped += length;
    }
}
