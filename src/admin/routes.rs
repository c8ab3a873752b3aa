//! The paths of the admin port, and the parts of the process that they report on.

use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use serde_json::json;

use super::answers::{readiness, version};
use super::pulse::Pulse;
use super::{log_level, queues};
use crate::broker::Broker;
use crate::config::StoreKind;
use crate::logging::LogLevel;
use crate::queue::QueueSpec;
use crate::telemetry::Telemetry;

/// The maximum size of a request's body, in bytes.
const MAX_BODY_BYTES: usize = 1_024;
/// The media type of version 0.0.4 of the Prometheus text format.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The answer to a change that is not allowed.
const CHANGES_REFUSED: &str =
    "the admin port is not on a loopback address: set admin.allow_changes to allow changes";

/// The parts of the process that the admin port reports on.
pub struct Subject {
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
    /// The level of the log.
    pub log_level: Arc<LogLevel>,
}

type Shared = State<Arc<Subject>>;

/// Builds the router. Without `allow_changes`, requests that would change something are refused.
pub(super) fn router(subject: Arc<Subject>, allow_changes: bool) -> Router {
    let level = if allow_changes {
        put(log_level::change)
    } else {
        put(async || (StatusCode::FORBIDDEN, CHANGES_REFUSED))
    };
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route(
            "/version",
            get(async |State(subject): Shared| Json(version(&subject))),
        )
        .route(
            "/debug/queues",
            get(async |State(subject): Shared| Json(queues::describe(&subject))),
        )
        .route("/log/level", level.get(log_level::read))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(subject)
}

async fn livez(State(subject): Shared) -> Response {
    match subject.pulse.stalled_for(Instant::now()) {
        None => Json(json!({ "status": "ok" })).into_response(),
        Some(age) => {
            let body = json!({ "status": "stalled", "seconds": age.as_secs() });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

async fn readyz(State(subject): Shared) -> Response {
    let (ready, body) = readiness(subject.broker.get().map(Arc::as_ref), &subject.queues);
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(body)).into_response()
}

async fn metrics(State(subject): Shared) -> Response {
    match subject.telemetry.prometheus_text() {
        Ok(text) => ([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
    }
}
