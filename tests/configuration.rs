//! The configuration: layers, and what is said of a setting that does not do.

#[path = "configuration/layers.rs"]
mod layers;
#[path = "configuration/queues.rs"]
mod queues;
#[path = "configuration/refusals.rs"]
mod refusals;
#[path = "configuration/sources.rs"]
mod sources;
#[path = "configuration/store.rs"]
mod store;
