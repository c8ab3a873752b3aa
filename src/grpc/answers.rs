//! The way of a request through the server, from its headers to its response: to the standard services for health and
//! reflection, or to the API.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::ready;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tonic::body::Body;

use super::api::Api;
use super::call_metrics::CallMetrics;
use super::connections::Connection;
use super::intake::IntakeLimits;
use super::method::rpc_of;
use super::response_body::ResponseBody;
use super::rpc_spans::CallSpans;
use super::standard_services::StandardServices;
use super::status;
use crate::broker::Importance;
use crate::call_trace;

/// Answers the requests of all connections.
pub(super) struct Answers {
    pub(super) api: Api,
    pub(super) standard: StandardServices,
    pub(super) intake: Arc<IntakeLimits>,
    pub(super) metrics: Arc<CallMetrics>,
    pub(super) spans: CallSpans,
    /// The time limit for sending the response of a call.
    pub(super) response_timeout: Duration,
}

impl Answers {
    /// Answers a request of a connection. If the future of a call of the API is dropped, its caller has gone away.
    ///
    /// All that is decided by the headers happens at once and not in the future, in the order in which the requests arrive.
    pub(super) fn answer(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Response<ResponseBody>> + use<> {
        let (this, connection) = (self.clone(), connection.clone());
        let stream = connection.open_stream();
        if let Some(response) = refused(&request, &connection) {
            let response = ResponseBody::wrap(response, connection, Importance::Other);
            return ready(response).boxed().left_future();
        }
        let path = request.uri().path();
        let rpc = rpc_of(path);
        if rpc.is_none()
            && let Some(standard) = self.standard.rpc_of(path)
        {
            let answer = async move {
                let answer = this.standard.answer(standard, request, &connection);
                let mut response = answer.await;
                connection.count_answer();
                response.body_mut().keep_stream(stream);
                response
            };
            return answer.boxed().left_future();
        }
        let measured = self.metrics.start(rpc);
        let (recording, trace) = self.spans.begin(rpc, &mut request);
        let serve = move |rpc, request| this.api.call(rpc, request);
        let call = self.intake.answer(connection.clone(), rpc, request, serve);
        let response_timeout = self.response_timeout;
        let end = move |mut response: Response<ResponseBody>| {
            if let Some(recording) = recording {
                recording.end(&response);
            }
            measured.end(&response);
            connection.count_answer();
            connection.limit_response(response_timeout);
            response.body_mut().keep_stream(stream);
            response
        };
        // `map` and not a block with `await`, which would need the memory of the call twice.
        call_trace::in_call(trace, call).map(end).right_future()
    }
}

/// Returns the response to a request that is not served.
fn refused<B>(request: &Request<B>, connection: &Connection) -> Option<Response<Body>> {
    if let Some(status) = refusal(request) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        return Some(response);
    }
    let is_ending = connection.is_ending();
    is_ending.then(|| status::connection_ends().into_http())
}

/// Returns whether a content type is that of gRPC with messages of protobuf. The answer to gRPC-Web or to another format would have
/// another form.
fn is_grpc(content_type: &[u8]) -> bool {
    let kind = content_type.split(|byte| *byte == b';').next();
    let kind = kind.unwrap_or_default().trim_ascii();
    kind == b"application/grpc" || kind == b"application/grpc+proto"
}

/// Returns the HTTP status for a request that is not one of gRPC.
fn refusal<B>(request: &Request<B>) -> Option<StatusCode> {
    if request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let content_type = request.headers().get(CONTENT_TYPE);
    let is_grpc = content_type.is_some_and(|kind| is_grpc(kind.as_bytes()));
    (!is_grpc).then_some(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}
