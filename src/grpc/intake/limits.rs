//! The limits of arriving requests, and a message that has arrived within them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::incomplete::Incomplete;
use crate::broker::{Broker, Held};
use crate::grpc::guard::Guard;

/// The limits of arriving requests, for all connections of a server.
pub(in crate::grpc) struct IntakeLimits {
    pub(in crate::grpc) broker: Arc<Broker>,
    /// Checks callers before their requests are read. `None`: every caller may do everything.
    pub(in crate::grpc) guard: Option<Arc<Guard>>,
    pub(in crate::grpc) max_message_bytes: usize,
    pub(in crate::grpc) request_timeout: Duration,
    pub(in crate::grpc) incomplete: Arc<Incomplete>,
    /// Tracks the calls whose requests are complete.
    pub(in crate::grpc) calls: TaskTracker,
    /// Cancelled when the server stops. Requests that are incomplete then are refused.
    pub(in crate::grpc) stop: CancellationToken,
}

/// The body of a request.
pub(in crate::grpc) trait RequestBody:
    http_body::Body<Data = Bytes> + Unpin
{
}

impl<B: http_body::Body<Data = Bytes> + Unpin> RequestBody for B {}

/// A whole body, and the bytes that are charged for it.
pub(in crate::grpc) struct Message {
    pub(super) body: Bytes,
    pub(super) charge: Held,
}
