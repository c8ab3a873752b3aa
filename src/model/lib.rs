//! What lease-broker talks about: queues, states of items, keys, leases and their ids, trace contexts. Plain data and pure
//! functions. No module here knows a database or a network.

pub mod call_source;
pub mod item_state;
pub mod key;
pub mod key_bytes;
pub mod lease_id;
pub mod lease_trace;
pub mod millis;
pub mod queue;
pub mod sampling;
pub mod text;
pub mod trace_context;
