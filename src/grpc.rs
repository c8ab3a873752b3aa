//! Serves the broker over gRPC: the only place that knows tonic and the messages of `proto/`. Handlers hold no logic.

mod answer;
mod convert;
mod deadline;
mod gather;
mod health;
mod server;
mod service;
mod status;

pub use self::server::{Serving, serve};

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
