//! The configuration: layers, and what is said of a setting that does not do.

#[path = "configuration/invalid_settings.rs"]
mod invalid_settings;
#[path = "configuration/precedence.rs"]
mod precedence;
#[path = "configuration/queues.rs"]
mod queues;
#[path = "configuration/store.rs"]
mod store;
#[path = "configuration/test_sources.rs"]
mod test_sources;
