//! The program as processes: its commands, its documents, workers in other languages, kills and upgrades.

#[path = "harness/harness.rs"]
mod harness;
mod support;

mod command_line;
mod crash;
mod documents;
mod languages;
mod upgrades;
