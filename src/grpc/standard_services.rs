//! The standard gRPC services of a server, health and reflection, and the limits of their calls.
//!
//! A client that watches the health of the server, or that asks for descriptors, holds a stream and memory without doing
//! work. Such streams have budgets of their own. A place is returned when the answer has left.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::ready;
use futures_util::{StreamExt as _, stream};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::Service as _;

use super::connections::Connection;
use super::intake::{IntakeLimits, MessageCounter};
use super::response_body::ResponseBody;
use crate::broker::{Held, Importance};

/// The largest message of a health check, and of a reflection request, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 4_096;
/// The largest number of requests on one reflection stream.
const MAX_REFLECTION_REQUESTS: u32 = 64;
/// The time limit of a reflection stream.
const REFLECTION_TIME: Duration = Duration::from_secs(60);

/// A call of a standard service.
#[derive(Clone, Copy)]
pub(super) enum StandardRpc {
    Check,
    Watch,
    Reflection,
}

/// The standard services and their budgets.
pub(super) struct StandardServices {
    pub(super) routes: Routes,
    pub(super) intake: Arc<IntakeLimits>,
    pub(super) response_timeout: Duration,
    pub(super) has_reflection: bool,
}

impl StandardServices {
    /// Returns the call that a path stands for. `None`: it is none of a standard service.
    pub(super) fn rpc_of(&self, path: &str) -> Option<StandardRpc> {
        match path {
            "/grpc.health.v1.Health/Check" => Some(StandardRpc::Check),
            "/grpc.health.v1.Health/Watch" => Some(StandardRpc::Watch),
            _ => (self.has_reflection && path.starts_with("/grpc.reflection."))
                .then_some(StandardRpc::Reflection),
        }
    }

    /// Answers a request.
    pub(super) async fn answer(
        &self,
        rpc: StandardRpc,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Response<ResponseBody> {
        let answer = match rpc {
            StandardRpc::Check => self.check(request, connection).await,
            StandardRpc::Watch => self.watch(request, connection).await,
            StandardRpc::Reflection => self.reflect(request, connection).await,
        };
        let connection = connection.clone();
        match answer {
            Err(status) => ResponseBody::wrap(status.into_http(), connection, Importance::Other),
            Ok((response, place)) => {
                let mut response = ResponseBody::wrap(response, connection, Importance::Other);
                response.body_mut().keep_place(place);
                response
            }
        }
    }

    async fn route(&self, request: Request<Body>) -> Response<Body> {
        let Ok(response) = self.routes.clone().call(request).await;
        response
    }

    async fn check(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<(Response<Body>, Held), Status> {
        let budget = &connection.budgets.health_checks;
        let place = budget.take_place(Some(connection.account.source.clone()));
        let place =
            place.ok_or_else(|| Status::unavailable("too many health checks are running"))?;
        let request = self.receive(request, connection).await?;
        connection.limit_response(self.response_timeout);
        Ok((self.route(request).await, place))
    }

    /// UNIMPLEMENTED tells gRPC clients to go on without health checks. With any other error, their connection would not
    /// become ready.
    async fn watch(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<(Response<Body>, Held), Status> {
        let budget = &connection.budgets.health_watchers;
        let place = budget.take_place(Some(connection.account.source.clone()));
        let place =
            place.ok_or_else(|| Status::unimplemented("too many clients watch the health"))?;
        let request = self.receive(request, connection).await?;
        let is_first = !connection.has_watcher.swap(true, Ordering::AcqRel);
        if !is_first && !connection.account.is_proxy {
            return Err(Status::unimplemented(
                "this connection watches the health already",
            ));
        }
        let watcher = is_first.then(|| Watcher(connection.clone()));
        let mut response = self.route(request).await;
        if Status::from_header_map(response.headers())
            .is_some_and(|status| status.code() == Code::NotFound)
        {
            response = unknown_service();
        }
        Ok((response.map(|body| holding(body, watcher)), place))
    }

    async fn reflect(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<(Response<Body>, Held), Status> {
        let source = match &self.intake.guard {
            Some(guard) => guard.admit_any_role(connection, &request)?,
            None => connection.account.source.clone(),
        };
        let budget = &connection.budgets.reflection_streams;
        let place = budget.take_place(Some(source));
        let place = place
            .ok_or_else(|| Status::resource_exhausted("too many reflection streams are open"))?;
        connection.limit_response(REFLECTION_TIME);
        Ok((
            self.route(request.map(|requests| counted(requests, connection.clone())))
                .await,
            place,
        ))
    }

    /// Receives a whole request.
    async fn receive(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> Result<Request<Body>, Status> {
        let (head, body) = request.into_parts();
        let message = self
            .intake
            .receive_small(connection, body, MAX_MESSAGE_BYTES);
        let body = Body::new(Full::new(message.await?));
        Ok(Request::from_parts(head, body))
    }
}

/// Returns the answer to a watcher of a service that does not exist. The protocol of health checks demands it. `tonic_health` answers
/// with `NOT_FOUND`, on which a client sends the call again and again.
fn unknown_service() -> Response<Body> {
    // The frame of a `HealthCheckResponse` with the status SERVICE_UNKNOWN.
    let message = Bytes::from_static(&[0, 0, 0, 0, 2, 0x08, 3]);
    let message = stream::once(ready(Ok::<_, Status>(Frame::data(message))));
    let body = Body::new(StreamBody::new(message.chain(stream::pending())));
    let mut response = Response::new(body);
    let content_type = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// The only watcher of a connection.
struct Watcher(Arc<Connection>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.has_watcher.store(false, Ordering::Release);
    }
}

/// Returns a body that keeps a value until it has ended.
fn holding<H: Send + 'static>(body: Body, held: H) -> Body {
    Body::new(body.map_frame(move |frame| {
        let _held = &held;
        frame
    }))
}

/// Returns a stream of requests whose number and size are limited.
fn counted(requests: Incoming, connection: Arc<Connection>) -> Body {
    let mut counter = MessageCounter::new(MAX_REFLECTION_REQUESTS, MAX_MESSAGE_BYTES);
    let frames = requests.into_stream().map(move |frame| {
        let frame = frame.map_err(|error| Status::from_error(error.into()))?;
        let length = frame.data_ref().map_or(0, Bytes::len);
        connection.count_request_bytes(length);
        match frame.data_ref() {
            Some(data) if !counter.accepts(data) => Err(Status::resource_exhausted(
                "too many requests on this stream, or one is too long",
            )),
            _ => Ok(frame),
        }
    });
    Body::new(StreamBody::new(frames))
}
