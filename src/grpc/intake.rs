//! Receives the whole request of a call before the call begins.
//!
//! tonic reserves memory for the length that a request announces, and decodes a message of any shape. The intake
//! allocates nothing for a length that a client announces. It bounds the number and the bytes of requests that have
//! not arrived completely, gives them a time limit, and checks the shape of a message before tonic decodes it. tonic then
//! gets the whole body at once.
//!
//! If the server has a guard, it checks the caller first, by the headers alone. A compressed request is refused by its headers
//! too.
//!
//! Most requests are complete when the intake sees them. They take no place among the incomplete requests and need no timer,
//! and their bytes are not copied.

mod incomplete;
mod limits;
mod message_counter;
mod read_message;
mod shape;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body_util::Full;
use lease_broker_model::call_source::CallSource;
use tonic::Status;
use tonic::body::Body;

pub(super) use self::incomplete::Incomplete;
pub(super) use self::limits::IntakeLimits;
use self::limits::{Message, RequestBody};
pub(super) use self::message_counter::MessageCounter;
pub(super) use self::shape::decodes;
use super::caller::Caller;
use super::caught::catch_call;
use super::connections::Connection;
use super::response_body::ResponseBody;
use super::status;
use crate::broker::{Error, Held, Importance};
use crate::security::Rpc;

/// A request whose headers are accepted.
struct Accepted {
    rpc: Rpc,
    source: Arc<CallSource>,
}

impl IntakeLimits {
    /// Answers a request of the API: checks its headers at once, and then receives its message and lets `serve` answer the call.
    /// `rpc` is `None` if the API has no such rpc.
    pub(super) fn answer<B, S, F>(
        self: &Arc<Self>,
        connection: Arc<Connection>,
        rpc: Option<Rpc>,
        mut request: Request<B>,
        serve: S,
    ) -> impl Future<Output = Response<ResponseBody>> + use<B, S, F>
    where
        B: RequestBody,
        S: FnOnce(Rpc, Request<Full<Bytes>>) -> F,
        F: Future<Output = Response<Body>>,
    {
        // Not in the future: the refusal of a caller can end the connection, and its next request must see that.
        let (accepted, place) = match self.accept(&connection, rpc, &mut request) {
            Ok((accepted, place)) => (Ok(accepted), Some(place)),
            Err(status) => (Err(status), None),
        };
        let (head, body) = request.into_parts();
        let (limits, caller) = (self.clone(), connection.clone());
        let call = async move {
            let Accepted { rpc, source } = accepted?;
            let importance = importance_of(rpc);
            let received = limits.message(&caller, &source, importance, body).await?;
            // The message is charged, and the call is tracked, until the call has its response.
            let Message { body, charge } = limits.check(rpc, received, &source)?;
            let tracked = limits.calls.token();
            if limits.guard.is_none() && !caller.account.is_trusted() {
                caller.account.trust();
            }
            let response = serve(rpc, Request::from_parts(head, Full::new(body))).await;
            drop((charge, tracked));
            Ok((response, importance))
        };
        catch_call(call).map(move |answered| {
            let answered = answered.unwrap_or_else(|| Err(Error::Internal.into()));
            let refused = |status: Status| (status.into_http(), Importance::Other);
            let (response, importance) = answered.unwrap_or_else(refused);
            let mut response = ResponseBody::wrap(response, connection, importance);
            if let Some(place) = place {
                response.body_mut().keep_place(place);
            }
            response
        })
    }

    /// Checks the headers of a request. Returns its place among the open streams too.
    fn accept<B>(
        &self,
        connection: &Connection,
        rpc: Option<Rpc>,
        request: &mut Request<B>,
    ) -> Result<(Accepted, Held), Status> {
        let rpc = rpc.ok_or_else(|| status::rpc_unknown(request.uri().path()))?;
        let caller = match &self.guard {
            Some(guard) => guard.admit(connection, rpc, request.headers())?,
            None => Caller::unrestricted(),
        };
        let account = &connection.account;
        let source = caller.identity().and_then(|identity| {
            account.log_in(&identity.name, identity.source.as_ref());
            identity.source.as_ref()
        });
        check_encoding(request)?;
        let source = source.unwrap_or(&account.source).clone();
        let budgets = self.broker.budgets();
        let place = budgets.open_streams.take_place(Some(source.clone()));
        let place = place.ok_or_else(|| budgets.refuse("open_streams"))?;
        request.extensions_mut().insert(source.clone());
        request.extensions_mut().insert(caller);
        Ok((Accepted { rpc, source }, place))
    }

    /// Receives a message. One that is there completely takes no place among the incomplete requests, and is not copied.
    async fn message<B: RequestBody>(
        &self,
        connection: &Connection,
        source: &Arc<CallSource>,
        importance: Importance,
        mut body: B,
    ) -> Result<Message, Status> {
        let first = poll_fn(|context| Poll::Ready(poll_data(&mut body, context))).await;
        connection.count_request_bytes(first.as_ref().map_or(0, Bytes::len));
        match first {
            Some(body_bytes) if body.is_end_stream() => {
                // Its length is checked with its shape.
                read_message::check_header(&body_bytes, self.max_message_bytes)?;
                let (body, charge) = (body_bytes, self.charge(source));
                Ok(Message { body, charge })
            }
            // Boxed, so that the calls of all other requests are smaller.
            first => Box::pin(self.receive(connection, source, importance, &mut body, first)).await,
        }
    }
}

/// Checks a whole request, and returns its message and the bytes that the decoded message takes at most. `None`: the request is
/// refused. The length is not limited.
pub(in crate::grpc) fn check_request(rpc: Rpc, request: &[u8]) -> Option<(&[u8], usize)> {
    read_message::check_header(request, usize::MAX).ok()?;
    let message = read_message::whole_message(request).ok()?;
    let decoded_bytes = shape::check(shape::message_of(rpc), message).ok()?;
    Some((message, decoded_bytes))
}

/// Does the same with a request that arrives in parts of this length.
pub(in crate::grpc) fn check_parts(
    rpc: Rpc,
    request: &[u8],
    part: usize,
) -> Option<(&[u8], usize)> {
    let mut arrived = 0;
    while arrived < request.len() {
        arrived = request.len().min(arrived + part);
        read_message::check_header(&request[..arrived], usize::MAX).ok()?;
    }
    check_request(rpc, request)
}

/// Refuses a compressed request by its headers.
fn check_encoding<B>(request: &Request<B>) -> Result<(), Status> {
    match request.headers().get("grpc-encoding") {
        Some(encoding) if encoding != "identity" => {
            let encoding = String::from_utf8_lossy(encoding.as_bytes());
            Err(status::compressed(&encoding))
        }
        _ => Ok(()),
    }
}

/// Returns the first part of the body if it is there.
fn poll_data<B: RequestBody>(body: &mut B, context: &mut Context<'_>) -> Option<Bytes> {
    match Pin::new(body).poll_frame(context) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
        _ => None,
    }
}

impl IntakeLimits {
    /// Returns a charge of no bytes.
    fn charge(&self, source: &Arc<CallSource>) -> Held {
        let budget = &self.broker.budgets().request_bytes;
        budget.hold_nothing(Some(source.clone()))
    }

    /// Checks the shape of a whole message, and charges the memory of the decoded message. Refuses the call of a caller that
    /// leaves too many responses unread.
    fn check(
        &self,
        rpc: Rpc,
        mut message: Message,
        source: &CallSource,
    ) -> Result<Message, Status> {
        let (budgets, importance) = (self.broker.budgets(), importance_of(rpc));
        if !budgets.response_bytes.has_room_for(source, importance) {
            return Err(budgets.refuse("response_bytes").into());
        }
        let wire = read_message::whole_message(&message.body)?;
        let decoded_bytes = shape::check(shape::message_of(rpc), wire)?;
        // tonic copies the message before it decodes it.
        let bytes = 2 * wire.len() + decoded_bytes;
        if !message.charge.raise_to(bytes, importance) {
            return Err(budgets.refuse("request_bytes").into());
        }
        Ok(message)
    }
}

/// Returns whether a call may use the bytes that are reserved for calls that end or extend leases.
fn importance_of(rpc: Rpc) -> Importance {
    if rpc.is_settlement() {
        Importance::Settlement
    } else {
        Importance::Other
    }
}

#[cfg(test)]
mod tests;
