//! The connection of a command. A call that fails because of the connection says why.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tonic::body::Body;
use tonic::codegen::StdError;
use tonic::transport::Endpoint;
use tonic::{Status, TimeoutExpired};
use tower::Service;

use super::bearer::AuthorizedChannel;
use super::connection_failure::{explain, find};

/// A connection to a service. Each call carries the token of the command.
#[derive(Clone)]
pub(super) struct Connection {
    channel: AuthorizedChannel,
    endpoint: Arc<Endpoint>,
}

type Request = http::Request<Body>;

impl Connection {
    pub(super) fn new(channel: AuthorizedChannel, endpoint: Endpoint) -> Self {
        Self {
            channel,
            endpoint: Arc::new(endpoint),
        }
    }
}

impl Service<Request> for Connection {
    type Response = <AuthorizedChannel as Service<Request>>::Response;
    type Error = StdError;
    type Future = BoxFuture<'static, Result<Self::Response, StdError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        self.channel.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let response = self.channel.call(request);
        let endpoint = self.endpoint.clone();
        Box::pin(async move {
            match response.await {
                Ok(response) => Ok(response),
                Err(error) => Err(explain_call(&endpoint, error.into()).await),
            }
        })
    }
}

/// Adds the cause to the error of a call.
async fn explain_call(endpoint: &Endpoint, error: StdError) -> StdError {
    let failure = explain(endpoint, &*error).await;
    if failure.is_expected_protocol && find::<TimeoutExpired>(&*error).is_some() {
        return error;
    }
    let uri = endpoint.uri();
    let text = if failure.is_expected_protocol && failure.can_pass {
        format!("the connection to the service at {uri} ended before the answer: {failure}")
    } else {
        format!("cannot connect to the service at {uri}: {failure}")
    };
    Box::new(ConnectionError {
        text,
        can_pass: failure.can_pass,
    })
}

/// The error of a call whose connection failed. A [`Status`] has it as its source.
#[derive(Debug)]
pub(super) struct ConnectionError {
    text: String,
    /// Whether the same call can succeed later.
    pub(super) can_pass: bool,
}

impl ConnectionError {
    /// Returns the error behind a status. `None`: the status is not about the connection.
    pub(super) fn of_status(status: &Status) -> Option<&Self> {
        std::error::Error::source(status)?.downcast_ref()
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for ConnectionError {}
