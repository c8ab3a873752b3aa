//! Serves the broker over gRPC: the only place that knows tonic and the messages of `proto/`. Handlers hold no logic.

mod deadline;
mod error_layer;
mod health;
mod messages;
mod server;
mod service;
mod status;
mod write_coalescing;

pub use self::server::{RunningServer, serve};

/// The generated messages, client and server.
#[allow(
    missing_docs,
    clippy::pedantic,
    reason = "generated; the .proto documents it"
)]
pub mod proto {
    tonic::include_proto!("leasebroker.v1");

    /// The API's descriptors, for reflection.
    pub const DESCRIPTORS: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/lease_broker.descriptor.bin"));
}
