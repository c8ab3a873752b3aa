//! Security, tested through a real socket: TLS, identities, roles, and the owners of leases.
//!
//! The attacks come from clients that are not ours too: raw frames, the TLS of Python, and grpcurl.

mod support;

#[path = "security/credentials.rs"]
mod credentials;
#[path = "security/fixture.rs"]
mod fixture;
#[path = "security/grpcurl.rs"]
mod grpcurl;
#[path = "security/handshakes.rs"]
mod handshakes;
#[path = "security/lease_owners.rs"]
mod lease_owners;
#[path = "security/limits.rs"]
mod limits;
#[path = "security/matrix.rs"]
mod matrix;
#[path = "security/new_files.rs"]
mod new_files;
#[path = "support/skipped.rs"]
mod skipped;
#[path = "security/unread_requests.rs"]
mod unread_requests;
