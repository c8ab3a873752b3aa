//! The gRPC API of lease-broker, version 1: the messages, the clients and the servers that are generated from the files in
//! `leasebroker/v1`, and the conversion of column values.
//!
//! The generated files are committed, so that a build needs no code generator. The test `generated` compares them with the
//! .proto files.

mod value_conversion;

#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    reason = "generated code; the .proto files document it"
)]
#[rustfmt::skip]
#[path = "generated/leasebroker.v1.rs"]
mod generated;

pub use self::generated::*;
pub use self::value_conversion::UnknownKind;

/// The encoded `google.protobuf.FileDescriptorSet` of the API and of the files that it imports.
#[cfg(feature = "server")]
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/leasebroker.v1.descriptors.bin");
