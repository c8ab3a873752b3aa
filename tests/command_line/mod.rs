//! Tests of the command line: they run the real program and check its output and its exit codes.

mod admin;
mod adopt;
mod bench;
mod connect;
mod connections;
mod container;
mod demo;
mod enqueue;
mod environment;
mod exit_codes;
mod help;
mod layers;
mod leases;
mod logging;
mod metrics;
mod operators;
mod pauses;
mod read_only;
mod schema;
mod security;
mod serve;
mod summary;
mod terminal;
mod why;
mod work;
mod workspace;
