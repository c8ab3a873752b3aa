//! The parts of the process that the admin port reports on.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use lease_broker_model::queue::QueueSpec;

use axum::http::HeaderName;
use tokio::runtime::Handle;

use super::pages::Sessions;
use super::pulse::Pulse;
use crate::broker::Broker;
use crate::config::StoreKind;
use crate::logging::LogLevel;
use crate::security::{Access, ServerTls};
use crate::telemetry::Telemetry;

/// The parts of the process that the admin port reports on.
pub struct AdminState {
    /// The time at which the process started.
    pub started: SystemTime,
    /// The kind of the store.
    pub store: StoreKind,
    /// The absolute path of the database file. `None`: the database is on a server.
    pub database_file: Option<PathBuf>,
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
    /// The runtime of the broker. Calls for the pages run on it.
    pub runtime: Handle,
    /// Decides who the viewer of a page is. `None`: the service has no identities.
    pub access: Option<Arc<Access>>,
    /// The certificate of the port. `None`: it speaks no TLS.
    pub tls: Option<Arc<ServerTls>>,
    /// The header in which a reverse proxy sends the token of a viewer. `None`: only `Authorization`.
    pub token_header: Option<HeaderName>,
    /// The sessions of viewers.
    pub sessions: Arc<Sessions>,
    /// Whether requests that change something are allowed without a login: the port is on a loopback address, or `admin.allow_changes` is set.
    pub allows_changes: bool,
    /// The address of a trace, with `{trace_id}` in place of the id. Empty: ids are no links.
    pub trace_url: String,
}
