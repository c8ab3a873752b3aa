//! The stores: their contract on every store, the SQLite file, and names and values that look like SQL.

#[path = "harness/harness.rs"]
mod harness;
mod support;

mod conformance;
mod groups;
mod injection;
mod model;
mod replay;
mod sqlite_files;
