//! Helpers that several tests share: a broker, a client, the database file, HTTP, errors and timeouts.
//!
//! Each target that needs them declares `mod support;`.

#![allow(dead_code, reason = "each test target uses some of the helpers")]

pub(crate) mod api_error;
pub(crate) mod applied;
pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod database;
pub(crate) mod earlier_program;
pub(crate) mod event_stream;
pub(crate) mod frames;
pub(crate) mod http;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod raw_call;
pub(crate) mod raw_connection;
pub(crate) mod server;
pub(crate) mod signal;
pub(crate) mod skipped;
pub(crate) mod timeout;
pub(crate) mod tools;
