//! The service of one connection: passes each request to the standard services for health and reflection, or to the API, with
//! its [`Rpc`](crate::security::Rpc) as an extension. A request without that extension is for no rpc of the API, which refuses
//! and counts it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tonic::body::Body;

use super::connections::{Connection, OpenStream};
use super::method::rpc_of;
use super::response_body::ResponseBody;
use super::standard_services::StandardServices;
use super::status;
use crate::broker::Importance;

/// The service of one connection. `A` answers the calls of the API.
pub(super) struct Router<A> {
    pub(super) api: A,
    pub(super) standard: Arc<StandardServices>,
    pub(super) connection: Arc<Connection>,
    /// The time limit for sending the response of a call.
    pub(super) response_timeout: Duration,
}

impl<A> hyper::service::Service<Request<Incoming>> for Router<A>
where
    A: tower::Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>
        + Clone,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Answer<A::Future>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let connection = self.connection.clone();
        let stream = Some(connection.open_stream());
        let refused = refusal(&request).map(|status| {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            response
        });
        let is_ending = connection.is_ending();
        let refused = refused.or(is_ending.then(|| status::connection_ends().into_http()));
        if let Some(response) = refused {
            let response = ResponseBody::wrap(response, connection, Importance::Other);
            return Answer::Refused {
                response: Some(response),
            };
        }
        let path = request.uri().path();
        if let Some(rpc) = rpc_of(path) {
            request.extensions_mut().insert(rpc);
        } else if let Some(rpc) = self.standard.rpc_of(path) {
            let standard = self.standard.clone();
            let answer = standard.answer(rpc, request, connection.clone());
            return Answer::Standard {
                answer: Box::pin(answer),
                connection,
                stream,
            };
        }
        Answer::Api {
            answer: self.api.clone().call(request),
            connection,
            response_timeout: self.response_timeout,
            stream,
        }
    }
}

/// Returns the HTTP status for a request that is not one of gRPC.
fn refusal<B>(request: &Request<B>) -> Option<StatusCode> {
    if request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let content_type = request.headers().get(CONTENT_TYPE);
    let is_grpc = content_type.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    (!is_grpc).then_some(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

pin_project! {
    /// The answer to a request.
    #[project = AnswerProjection]
    pub(super) enum Answer<F> {
        Api {
            #[pin]
            answer: F,
            connection: Arc<Connection>,
            response_timeout: Duration,
            stream: Option<OpenStream>,
        },
        Standard {
            connection: Arc<Connection>,
            answer: BoxFuture<'static, Response<ResponseBody>>,
            stream: Option<OpenStream>,
        },
        Refused { response: Option<Response<ResponseBody>> },
    }
}

impl<F: Future<Output = Result<Response<ResponseBody>, Infallible>>> Future for Answer<F> {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (mut response, stream) = match self.project() {
            AnswerProjection::Api {
                answer,
                connection,
                response_timeout,
                stream,
            } => {
                let Ok(response) = ready!(answer.poll(context));
                connection.count_answer();
                connection.limit_response(*response_timeout);
                (response, stream.take())
            }
            AnswerProjection::Standard {
                answer,
                connection,
                stream,
            } => {
                let response = ready!(answer.as_mut().poll(context));
                connection.count_answer();
                (response, stream.take())
            }
            AnswerProjection::Refused { response } => match response.take() {
                Some(response) => (response, None),
                None => return Poll::Pending,
            },
        };
        if let Some(stream) = stream {
            response.body_mut().keep_stream(stream);
        }
        Poll::Ready(Ok(response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, content_type: Option<&str>) -> Request<()> {
        let mut request = Request::builder().method(method);
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        request.body(()).expect("a request")
    }

    #[test]
    fn only_grpc_requests_are_accepted() {
        let grpc = Some("application/grpc");
        assert_eq!(refusal(&request("POST", grpc)), None);
        let with_format = Some("application/grpc+proto");
        assert_eq!(refusal(&request("POST", with_format)), None);
        let not_allowed = Some(StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refusal(&request("GET", grpc)), not_allowed);
        assert_eq!(refusal(&request("CONNECT", grpc)), not_allowed);
        let unsupported = Some(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(
            refusal(&request("POST", Some("application/json"))),
            unsupported
        );
        assert_eq!(refusal(&request("POST", None)), unsupported);
    }
}
