//! Tests of the worker library: workers and producers against a real broker, and calls against a scripted one.

mod answers;
mod calls;
mod edges;
mod fixture;
mod handlers;
mod leases;
mod outages;
mod producers;
mod scripted;
mod settings;
mod stopping;
