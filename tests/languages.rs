//! Clients in other languages: a table that workers in Rust and Python share, the retry policies of gRPC clients, and
//! clients that are generated from the .proto file.

mod support;

#[path = "languages/adopted_table.rs"]
mod adopted_table;
#[path = "languages/generated_clients.rs"]
mod generated_clients;
#[path = "languages/retry_policy.rs"]
mod retry_policy;
#[path = "support/skipped.rs"]
mod skipped;
#[path = "languages/tools.rs"]
mod tools;
