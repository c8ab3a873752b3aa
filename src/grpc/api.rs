//! The API: passes each request to the service that has its rpc.

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body_util::Full;
use lease_broker_proto::admin_service_server::AdminServiceServer;
use lease_broker_proto::lease_service_server::LeaseServiceServer;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::Service as _;

use super::service::Service;
use super::status;
use crate::security::{Rpc, RpcService};

/// The services of the API.
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

    /// Answers a call.
    pub(super) fn call(
        &self,
        rpc: Rpc,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = Response<Body>> + use<> {
        let answer = match rpc.service() {
            RpcService::Admin => self.admin.clone().call(request),
            RpcService::Leases => self.leases.clone().call(request),
        };
        answer.map(|Ok(response)| with_api_error(response))
    }
}

/// Gives an error of tonic the form of the API's errors. tonic itself answers with errors that carry no `google.rpc.ErrorInfo`.
/// Clients would need a second way to read those.
fn with_api_error(response: Response<Body>) -> Response<Body> {
    match Status::from_header_map(response.headers()) {
        // tonic answers INTERNAL without details to a request that it cannot decode. INTERNAL from the service itself
        // has details.
        Some(status) if status.code() == Code::Internal && status.details().is_empty() => {
            status::malformed(status.message().to_owned()).into_http()
        }
        _ => response,
    }
}
