//! What lease-broker talks about: queues, states of items, keys, leases and their ids, trace contexts.
//!
//! These are plain data and pure functions, which the broker and the stores share. No module here knows a database or a
//! network, and the crate depends on no crate of this repository except the one of column values. So a rule that belongs here,
//! such as the backoff after a failure, is tested without a store.

pub mod call_source;
pub mod group;
pub mod item_state;
pub mod key;
pub mod key_bytes;
pub mod lease_id;
pub mod lease_trace;
pub mod millis;
mod named_enum;
pub mod network;
pub mod queue;
pub mod rate;
pub mod sampling;
pub mod text;
pub mod trace_context;
