//! The broker in this process: its API, its configuration, its clients, its security, and the structure of the source.

mod support;

mod api;
mod client;
mod configuration;
mod properties;
mod security;
mod structure;
mod telemetry;
