//! Security, tested through a real socket: TLS, identities, roles, and the owners of leases.
//!
//! The attacks come from clients that are not ours too: raw frames, the TLS of Python, and grpcurl.

mod audit;
mod authorities;
mod credentials;
mod ended_connections;
mod fixture;
mod grpcurl;
mod handshakes;
mod lease_owners;
mod limits;
mod listed_brokers;
mod matrix;
mod new_configuration;
mod new_files;
mod new_issuer;
mod published_keys;
mod tls_bridge;
mod unfinished_handshakes;
mod unread_requests;
