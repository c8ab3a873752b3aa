//! lease-broker turns the rows of ordinary SQL tables into work queues. This crate is the broker and its command line.
//!
//! Workers claim rows over gRPC, process them, and complete them. If a worker crashes, its lease expires and another
//! worker gets the row. Only the broker connects to the database, which is SQL Server or an embedded `SQLite` file. A
//! broker keeps no state of its own, so any number of brokers can serve the same database.
//!
//! # Layers
//!
//! ```text
//! grpc  ─►  broker  ─►  store: contract  ◄─  store: sqlite, mssql
//! ```
//!
//! - [`grpc`] receives the calls, one handler per rpc. A handler converts messages and contains no rules. Only this layer, the
//!   commands in [`cli`] and the worker library use tonic and prost.
//! - [`broker`] applies the rules: limits, retries and backoff, group commit, waiting claims, the reaper, draining. It contains
//!   no SQL and no gRPC.
//! - [`lease_broker_store`] holds the leases. Its contract is five traits. Each method is one atomic operation, most of them on
//!   a list of requests. The modules `sqlite` and `mssql` implement the contract, with one SQL file per operation in `sql/`.
//!
//! [`security`] decides who a caller is, and [`config`] reads the settings. [`telemetry`] reads the counters of the layers and
//! exports metrics and spans, and [`admin`] serves them over HTTP. [`cli`] starts the layers.
//!
//! # Boundaries
//!
//! The contract and the stores, the plain data ([`lease_broker_model`]), the API ([`lease_broker_proto`]) and the worker library
//! ([`lease_broker_client`]) are crates of their own, so the compiler keeps them from importing this one. Between the modules of
//! a crate a test does the same: `tests/structure/rules.rs` says which modules each module may import, and which of them may
//! name an external crate. `docs/architecture.md` has a table of all crates and folders.
//!
//! # Words
//!
//! `CONTRIBUTING.md` explains the words of the project, such as lease, fencing token and call group, and lists those that it avoids.
//!
//! # Where to start reading
//!
//! 1. `proto/leasebroker/v1/lease_broker.proto` documents the API and draws the states of an item.
//! 2. [`lease_broker_model::item_state`] has the states and the retry rules, [`lease_broker_model::queue`] the description of a
//!    queue.
//! 3. [`lease_broker_store::Leases`] is the most important part of the contract between the broker and a database.
//! 4. `grpc/service.rs` and `broker/calls.rs` have one function per call of the API.
//! 5. `sql/README.md` explains the statements. `docs/architecture.md` follows one claim through all layers.

pub mod admin;
pub mod broker;
pub mod call_trace;
pub mod cli;
pub mod config;
#[doc(hidden)]
pub mod fuzzing;
pub mod grpc;
mod json_object;
pub mod logging;
pub mod process;
pub mod security;
pub mod span;
pub mod telemetry;
pub mod why;
