//! The standard gRPC services of a server, health and reflection, and the limits of their calls.
//!
//! A client that watches the health of the server, or that asks for descriptors, holds a stream and memory without doing
//! work. Such streams have budgets of their own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower::Service as _;

use super::connections::{Connection, limit_response_time};
use super::intake::{IntakeLimits, MessageCounter};
use crate::config;

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
    pub(super) budgets: StandardBudgets,
    pub(super) has_reflection: bool,
}

/// The calls that may be open at the same time.
pub(super) struct StandardBudgets {
    health_checks: Arc<Semaphore>,
    health_watchers: Arc<Semaphore>,
    reflection_streams: Arc<Semaphore>,
}

impl From<config::Budgets> for StandardBudgets {
    fn from(budgets: config::Budgets) -> Self {
        Self {
            health_checks: Arc::new(Semaphore::new(budgets.health_checks)),
            health_watchers: Arc::new(Semaphore::new(budgets.health_watchers)),
            reflection_streams: Arc::new(Semaphore::new(budgets.reflection_streams)),
        }
    }
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
        self: Arc<Self>,
        rpc: StandardRpc,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Response<Body> {
        let answer = match rpc {
            StandardRpc::Check => self.check(request, connection).await,
            StandardRpc::Watch => self.watch(request, connection).await,
            StandardRpc::Reflection => self.reflect(request, &connection).await,
        };
        answer.unwrap_or_else(Status::into_http)
    }

    async fn route(&self, request: Request<Body>) -> Response<Body> {
        let Ok(response) = self.routes.clone().call(request).await;
        response
    }

    async fn check(
        &self,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Result<Response<Body>, Status> {
        let request = self.receive(request, connection).await?;
        let budget = self.budgets.health_checks.clone();
        let Ok(_permit) = budget.try_acquire_owned() else {
            return Err(Status::unavailable("too many health checks are running"));
        };
        limit_response_time(self.response_timeout);
        Ok(self.route(request).await)
    }

    /// UNIMPLEMENTED tells gRPC clients to go on without health checks. With any other error, their connection would not
    /// become ready.
    async fn watch(
        &self,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Result<Response<Body>, Status> {
        let request = self.receive(request, connection.clone()).await?;
        let budget = self.budgets.health_watchers.clone();
        let Ok(permit) = budget.try_acquire_owned() else {
            return Err(Status::unimplemented("too many clients watch the health"));
        };
        let is_first = !connection.has_watcher.swap(true, Ordering::AcqRel);
        if !is_first && !connection.peer.is_proxy {
            return Err(Status::unimplemented(
                "this connection watches the health already",
            ));
        }
        let watcher = is_first.then(|| Watcher(connection));
        let response = self.route(request).await;
        Ok(response.map(|body| holding(body, (permit, watcher))))
    }

    async fn reflect(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Response<Body>, Status> {
        if let Some(guard) = &self.intake.guard {
            guard.admit_any_role(connection, &request)?;
        }
        let budget = self.budgets.reflection_streams.clone();
        let Ok(permit) = budget.try_acquire_owned() else {
            return Err(Status::resource_exhausted(
                "too many reflection streams are open",
            ));
        };
        limit_response_time(REFLECTION_TIME);
        let response = self.route(request.map(counted)).await;
        Ok(response.map(|body| holding(body, permit)))
    }

    /// Receives a whole request.
    async fn receive(
        &self,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Result<Request<Body>, Status> {
        let (head, body) = request.into_parts();
        let limits = self.intake.clone();
        let message = limits.receive_small(connection, body, MAX_MESSAGE_BYTES);
        let body = Body::new(Full::new(message.await?));
        Ok(Request::from_parts(head, body))
    }
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
fn counted(requests: Incoming) -> Body {
    let mut counter = MessageCounter::new(MAX_REFLECTION_REQUESTS, MAX_MESSAGE_BYTES);
    let frames = requests.into_stream().map(move |frame| {
        let frame = frame.map_err(|error| Status::from_error(error.into()))?;
        match frame.data_ref() {
            Some(data) if !counter.accepts(data) => Err(Status::resource_exhausted(
                "too many requests on this stream, or one is too long",
            )),
            _ => Ok(frame),
        }
    });
    Body::new(StreamBody::new(frames))
}
