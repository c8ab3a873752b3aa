//! Clients in other languages: a table that workers in Rust and Python share, an item that kills workers, the retry policies of gRPC clients, and
//! clients that are generated from the .proto file.

mod adopted_table;
mod generated_clients;
mod poison;
mod retry_policy;
