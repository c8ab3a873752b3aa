//! The configuration: precedence of its sources, the meaning of each setting, and the error for each invalid setting.

#[path = "configuration/access.rs"]
mod access;
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
