//! Tests of the worker library: workers and producers against a real broker, and calls against a scripted one.

mod support;

#[path = "client/calls.rs"]
mod calls;
#[path = "client/fixture.rs"]
mod fixture;
#[path = "client/handlers.rs"]
mod handlers;
#[path = "client/leases.rs"]
mod leases;
#[path = "client/outages.rs"]
mod outages;
#[path = "client/producers.rs"]
mod producers;
#[path = "client/scripted.rs"]
mod scripted;
#[path = "client/settings.rs"]
mod settings;
#[path = "client/stopping.rs"]
mod stopping;
