//! Brokers behind load balancers: restarts, and faults from a seed.

#[path = "harness/harness.rs"]
mod harness;
mod support;

mod balancers;
mod chaos;
