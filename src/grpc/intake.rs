//! Tower layer that receives a whole request before the call begins.
//!
//! tonic reserves memory for the length that a request announces, and decodes a message of any shape. This
//! layer allocates nothing for a length that a client announces. It bounds the number and the bytes of requests that have
//! not arrived completely, gives them a time limit, and checks the shape of a message before tonic decodes it. tonic then
//! gets the whole body at once.
//!
//! If the server has a guard, it checks the caller first, by the headers alone. A compressed request is refused by its headers
//! too.
//!
//! Most requests are complete when the layer sees them. They take no place among the incomplete requests and need no timer,
//! and their bytes are not copied.

mod incomplete;
mod limits;
mod message_counter;
mod read_message;
mod shape;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::Full;
use lease_broker_model::call_source::CallSource;
use pin_project_lite::pin_project;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

pub(super) use self::incomplete::Incomplete;
pub(super) use self::limits::IntakeLimits;
use self::limits::Message;
pub(super) use self::message_counter::MessageCounter;
pub(super) use self::shape::decodes;
use super::caller::Caller;
use super::caught::catch;
use super::connections::Connection;
use super::response_body::ResponseBody;
use super::status;
use crate::broker::{Held, Importance};
use crate::security::Rpc;

/// The intake of the API's calls on one connection.
#[derive(Clone)]
pub(super) struct Intake<S> {
    pub(super) inner: S,
    pub(super) limits: Arc<IntakeLimits>,
    pub(super) connection: Arc<Connection>,
}

type BodyResult = Result<http::Response<ResponseBody>, Infallible>;

impl<S, B> Service<http::Request<B>> for Intake<S>
where
    S: Service<http::Request<Full<Bytes>>, Response = http::Response<Body>, Error = Infallible>
        + Clone,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
{
    type Response = http::Response<ResponseBody>;
    type Error = Infallible;
    type Future = IntakeFuture<S, B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The service of the API is always ready. Layers between would have to take their permits in `call`.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let (place, state) = match self.accept(&mut request) {
            Ok((rpc, place)) => {
                let request = Some(request);
                (Some(place), State::Arriving { rpc, request })
            }
            Err(status) => {
                let status = Some(status);
                (None, State::Refused { status })
            }
        };
        IntakeFuture {
            intake: self.clone(),
            place,
            state,
        }
    }
}

impl<S> Intake<S> {
    /// Checks the headers of a request. Returns its rpc, and its place among the open streams.
    fn accept<B>(&self, request: &mut http::Request<B>) -> Result<(Rpc, Held), Status> {
        let Some(rpc) = request.extensions().get::<Rpc>().copied() else {
            return Err(status::rpc_unknown(request.uri().path()));
        };
        let caller = match &self.limits.guard {
            Some(guard) => guard.admit(&self.connection, rpc, request.headers())?,
            None => Caller::unrestricted(),
        };
        let account = &self.connection.account;
        let source = caller.identity().and_then(|identity| {
            account.log_in(&identity.name, identity.source.as_ref());
            identity.source.as_ref()
        });
        check_encoding(request)?;
        let source = source.unwrap_or(&account.source).clone();
        let budgets = self.limits.broker.budgets();
        let place = budgets.open_streams.take_place(Some(source.clone()));
        let place = place.ok_or_else(|| budgets.refuse("open_streams"))?;
        request.extensions_mut().insert(source);
        request.extensions_mut().insert(caller);
        Ok((rpc, place))
    }

    /// Charges the bytes of a message that has arrived in one part. Its length is checked with its shape.
    fn check_length(&self, body: Bytes, source: &Arc<CallSource>) -> Result<Message, Status> {
        read_message::check_header(&body, self.limits.max_message_bytes)?;
        let charge = self.limits.charge(source);
        Ok(Message { body, charge })
    }

    fn answer(&self, status: Status) -> http::Response<ResponseBody> {
        let connection = self.connection.clone();
        ResponseBody::wrap(status.into_http(), connection, Importance::Other)
    }
}

pin_project! {
    pub(super) struct IntakeFuture<S: Service<http::Request<Full<Bytes>>>, B> {
        intake: Intake<S>,
        // The place of the stream. It goes with the response.
        place: Option<Held>,
        #[pin]
        state: State<S::Future, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B> {
        /// The headers are refused. The body is not read.
        Refused { status: Option<Status> },
        /// The body has not been looked at.
        Arriving { rpc: Rpc, request: Option<http::Request<B>> },
        /// The body arrives in several parts.
        Reading {
            rpc: Rpc,
            head: Option<http::request::Parts>,
            message: BoxFuture<'static, Result<Message, Status>>,
        },
        /// The call runs. Its request counts until then.
        Calling {
            #[pin]
            response: F,
            importance: Importance,
            charge: Held,
            call: TaskTrackerToken,
        },
    }
}

impl<S, B> Future for IntakeFuture<S, B>
where
    S: Service<http::Request<Full<Bytes>>, Response = http::Response<Body>, Error = Infallible>,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
{
    type Output = BodyResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<BodyResult> {
        let call = self.as_mut();
        let Some(response) = catch(|| call.poll_call(context)) else {
            // What has panicked is not run again.
            self.as_mut()
                .project()
                .state
                .set(State::Refused { status: None });
            let status = crate::broker::Error::Internal.into();
            return Poll::Ready(Ok(self.intake.answer(status)));
        };
        let mut response = std::task::ready!(response);
        if let Some(place) = self.project().place.take() {
            response.body_mut().keep_place(place);
        }
        Poll::Ready(Ok(response))
    }
}

impl<S, B> IntakeFuture<S, B>
where
    S: Service<http::Request<Full<Bytes>>, Response = http::Response<Body>, Error = Infallible>,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
{
    fn poll_call(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<http::Response<ResponseBody>> {
        let mut this = self.project();
        loop {
            let (rpc, head, message) = match this.state.as_mut().project() {
                StateProjection::Refused { status } => {
                    let Some(status) = status.take() else {
                        return Poll::Pending;
                    };
                    return Poll::Ready(this.intake.answer(status));
                }
                StateProjection::Arriving { rpc, request } => {
                    let rpc = *rpc;
                    // The state is left below, so there is a request.
                    let Some(request) = request.take() else {
                        return Poll::Pending;
                    };
                    let (head, mut body) = request.into_parts();
                    let source = source_of(&head, &this.intake.connection);
                    let first = poll_data(&mut body, context);
                    let arrived = first.as_ref().map_or(0, Bytes::len);
                    this.intake.connection.count_request_bytes(arrived);
                    if let Some(bytes) = &first
                        && body.is_end_stream()
                    {
                        let message = this.intake.check_length(bytes.clone(), source);
                        (rpc, head, message)
                    } else {
                        let limits = this.intake.limits.clone();
                        let connection = this.intake.connection.clone();
                        let (source, importance) = (source.clone(), importance_of(rpc));
                        let message = limits.receive(connection, source, importance, body, first);
                        this.state.set(State::Reading {
                            rpc,
                            head: Some(head),
                            message: Box::pin(message),
                        });
                        continue;
                    }
                }
                StateProjection::Reading { rpc, head, message } => {
                    let message = std::task::ready!(message.as_mut().poll(context));
                    let Some(head) = head.take() else {
                        return Poll::Pending;
                    };
                    (*rpc, head, message)
                }
                StateProjection::Calling {
                    response,
                    importance,
                    ..
                } => {
                    let Ok(response) = std::task::ready!(response.poll(context));
                    let connection = this.intake.connection.clone();
                    return Poll::Ready(ResponseBody::wrap(response, connection, *importance));
                }
            };
            let limits = &this.intake.limits;
            let source = source_of(&head, &this.intake.connection);
            let checked = message.and_then(|message| limits.check(rpc, message, source));
            let Message { body, charge } = match checked {
                Ok(message) => message,
                Err(status) => return Poll::Ready(this.intake.answer(status)),
            };
            if limits.guard.is_none() && !this.intake.connection.account.is_trusted() {
                this.intake.connection.account.trust();
            }
            let call = limits.calls.token();
            let request = http::Request::from_parts(head, Full::new(body));
            let response = this.intake.inner.call(request);
            this.state.set(State::Calling {
                response,
                importance: importance_of(rpc),
                charge,
                call,
            });
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
fn check_encoding<B>(request: &http::Request<B>) -> Result<(), Status> {
    match request.headers().get("grpc-encoding") {
        Some(encoding) if encoding != "identity" => {
            let encoding = String::from_utf8_lossy(encoding.as_bytes());
            Err(status::compressed(&encoding))
        }
        _ => Ok(()),
    }
}

/// Returns the first part of the body if it is there.
fn poll_data<B>(body: &mut B, context: &mut Context<'_>) -> Option<Bytes>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
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

/// Returns the caller of an accepted request.
fn source_of<'a>(
    head: &'a http::request::Parts,
    connection: &'a Connection,
) -> &'a Arc<CallSource> {
    let source = head.extensions.get::<Arc<CallSource>>();
    source.unwrap_or(&connection.account.source)
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
