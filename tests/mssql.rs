//! The store on SQL Server: on a server, and against a scripted server.

#[path = "harness/harness.rs"]
mod harness;
mod support;

mod sql_server;
mod wire;
