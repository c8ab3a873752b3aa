//! A broker that leases rows of ordinary SQL tables to workers, over gRPC.

pub mod lease;
pub mod lease_id;
pub mod queue;
pub mod store;
pub mod value;
