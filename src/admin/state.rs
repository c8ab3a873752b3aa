//! The parts of the process that the admin port reports on.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use lease_broker_model::queue::QueueSpec;

use super::pulse::Pulse;
use crate::broker::Broker;
use crate::config::StoreKind;
use crate::logging::LogLevel;
use crate::telemetry::Telemetry;

/// The parts of the process that the admin port reports on.
pub struct AdminState {
    /// The time at which the process started.
    pub started: SystemTime,
    /// The kind of the store.
    pub store: StoreKind,
    /// The configured queues.
    pub queues: Vec<QueueSpec>,
    /// The broker. Not set while the store is being opened.
    pub broker: Arc<OnceLock<Arc<Broker>>>,
    /// The pulse of the runtime that serves calls.
    pub pulse: Arc<Pulse>,
    /// The metrics.
    pub telemetry: Arc<Telemetry>,
    /// Held by the thread that writes the metrics.
    pub scrape: Arc<tokio::sync::Mutex<()>>,
    /// The level of the log.
    pub log_level: Arc<LogLevel>,
}
