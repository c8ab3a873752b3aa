//! The gRPC server: receives calls, passes them to the [`broker`](crate::broker), and sends the results.
//!
//! Of the layers of the server, only this one uses tonic, prost and the messages of `proto/`. A handler converts messages and
//! decides nothing. The broker applies the rules, and `status.rs` maps its errors to gRPC statuses in one table.

mod admin;
mod answers;
mod api;
mod call_metrics;
mod caller;
mod caught;
mod connection_counts;
mod connections;
mod deadline;
pub(crate) mod fuzzing;
mod guard;
mod health;
mod intake;
mod messages;
mod method;
mod overload_limit;
mod protobuf_time;
mod reason;
mod response_body;
mod rpc_spans;
mod server;
mod service;
mod standard_services;
mod status;
mod words;

pub use self::admin::{AdminApi, queue_settings};
pub use self::call_metrics::{CODE_NAMES, CallMetrics, RefusedCalls, error_type};
pub use self::caller::Caller;
pub use self::connection_counts::{ConnectionCounts, RefusedConnection};
pub(crate) use self::protobuf_time::{duration_to_proto, millis};
pub use self::server::{CallObservers, RunningServer, serve, serve_observed};
pub use self::words::{Words, broker_state};
