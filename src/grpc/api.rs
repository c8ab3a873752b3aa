//! The API: passes each request to the service that has its rpc.

use std::convert::Infallible;
use std::task::{Context, Poll};

use lease_broker_proto::admin_service_server::AdminServiceServer;
use lease_broker_proto::lease_service_server::LeaseServiceServer;
use tonic::body::Body;
use tonic::codegen::BoxFuture;

use super::service::Service;
use crate::security::{Rpc, RpcService};

/// The services of the API.
#[derive(Clone)]
pub(super) struct Api {
    leases: LeaseServiceServer<Service>,
    admin: AdminServiceServer<Service>,
}

impl Api {
    /// Creates the services. A request can have `max_message_bytes`.
    pub(super) fn new(service: Service, max_message_bytes: usize) -> Self {
        // One item can be larger than the limit. The client's own limit decides whether it accepts the response.
        Self {
            leases: LeaseServiceServer::new(service.clone())
                .max_decoding_message_size(max_message_bytes)
                .max_encoding_message_size(usize::MAX),
            admin: AdminServiceServer::new(service)
                .max_decoding_message_size(max_message_bytes)
                .max_encoding_message_size(usize::MAX),
        }
    }
}

impl<B> tower::Service<http::Request<B>> for Api
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<tower::BoxError> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let service = request.extensions().get::<Rpc>().map(|rpc| rpc.service());
        match service {
            Some(RpcService::Admin) => self.admin.call(request),
            Some(RpcService::Leases) | None => self.leases.call(request),
        }
    }
}
