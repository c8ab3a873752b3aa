//! The gRPC server: receives calls, passes them to the [`broker`](crate::broker), and sends the results.
//!
//! Only this module uses tonic, prost and the messages of `proto/`. A handler converts messages and decides nothing.
//! The broker applies the rules, and `status.rs` maps its errors to gRPC statuses in one table.

mod call_metrics;
mod counted_body;
mod deadline;
mod error_layer;
mod health;
mod measured;
mod messages;
mod rpc_spans;
mod server;
mod service;
mod status;
mod write_coalescing;

pub use self::call_metrics::{CODE_NAMES, CallMetrics, code_index, code_name};
pub use self::server::{CallObservers, RunningServer, serve, serve_observed};

/// The messages, client and server that are generated from `proto/`.
#[allow(
    missing_docs,
    clippy::pedantic,
    reason = "generated code; the .proto file documents it"
)]
pub mod proto {
    tonic::include_proto!("leasebroker.v1");

    /// The encoded descriptors of the API. The reflection service sends them to clients.
    pub const DESCRIPTORS: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/lease_broker.descriptor.bin"));
}
