//! The messages, the client and the server that are generated from `proto/`.
#![allow(
    missing_docs,
    clippy::pedantic,
    reason = "generated code; the .proto file documents it"
)]

mod value_conversion;

tonic::include_proto!("leasebroker.v1");
