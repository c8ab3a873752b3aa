//! Tests of the command line: they run the real program and check its output and its exit codes.

mod support;

#[path = "command_line/admin.rs"]
mod admin;
#[path = "command_line/adopt.rs"]
mod adopt;
#[path = "command_line/bench.rs"]
mod bench;
#[path = "command_line/connect.rs"]
mod connect;
#[path = "command_line/connections.rs"]
mod connections;
#[path = "command_line/container.rs"]
mod container;
#[path = "command_line/demo.rs"]
mod demo;
#[path = "command_line/enqueue.rs"]
mod enqueue;
#[path = "command_line/environment.rs"]
mod environment;
#[path = "command_line/exit_codes.rs"]
mod exit_codes;
#[path = "command_line/help.rs"]
mod help;
#[path = "command_line/layers.rs"]
mod layers;
#[path = "command_line/leases.rs"]
mod leases;
#[path = "command_line/logging.rs"]
mod logging;
#[path = "command_line/metrics.rs"]
mod metrics;
#[path = "command_line/operators.rs"]
mod operators;
#[path = "command_line/read_only.rs"]
mod read_only;
#[path = "command_line/schema.rs"]
mod schema;
#[path = "command_line/security.rs"]
mod security;
#[path = "command_line/serve.rs"]
mod serve;
#[path = "support/skipped.rs"]
mod skipped;
#[path = "command_line/summary.rs"]
mod summary;
#[path = "command_line/terminal.rs"]
mod terminal;
#[path = "command_line/why.rs"]
mod why;
#[path = "command_line/work.rs"]
mod work;
#[path = "command_line/workspace.rs"]
mod workspace;
