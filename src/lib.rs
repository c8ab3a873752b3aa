//! A broker that leases rows of ordinary SQL tables to workers, over gRPC.

pub mod broker;
pub mod cli;
pub mod config;
pub mod grpc;
pub mod item_state;
pub mod lease_id;
pub mod logging;
pub mod queue;
pub mod store;
pub mod value;
