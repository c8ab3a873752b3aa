//! The configuration: precedence of its sources, the meaning of each setting, and the error for each invalid setting.

mod access;
mod groups;
mod invalid_settings;
mod precedence;
mod queues;
mod store;
mod test_sources;
