//! Gives the errors of tonic the form of the API's errors.
//!
//! tonic itself answers with errors that carry no `google.rpc.ErrorInfo`. Clients would need a second way to read those.

use tonic::body::Body;
use tonic::{Code, Status};
use tower::util::MapResponse;

use super::status;

/// A service whose errors have the form of the API's errors.
pub(super) type ErrorService<S> = MapResponse<S, fn(http::Response<Body>) -> http::Response<Body>>;

/// Replaces the errors of tonic in the responses of a service.
pub(super) fn with_api_errors<S>(service: S) -> ErrorService<S> {
    MapResponse::new(service, with_api_error)
}

fn with_api_error(response: http::Response<Body>) -> http::Response<Body> {
    match Status::from_header_map(response.headers()) {
        // tonic answers INTERNAL without details to a request that it cannot decode. INTERNAL from the service itself
        // has details.
        Some(status) if status.code() == Code::Internal && status.details().is_empty() => {
            status::malformed(status.message().to_owned()).into_http()
        }
        _ => response,
    }
}
