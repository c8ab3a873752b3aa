//! The paths of the admin port.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router, middleware};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::answers::{readiness, version};
use super::host_check::{self, HostCheck};
use super::state::AdminState;
use super::{connections, log_level, pages, queues};

/// The maximum size of a request's body, in bytes.
const MAX_BODY_BYTES: usize = 1_024;
/// The media type of version 0.0.4 of the Prometheus text format.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The answer to a path that does not exist.
const NO_SUCH_PATH: &str = "no such path: the dashboard is at /, and programs read /livez, /readyz, /metrics and /version\n";

type Shared = State<Arc<AdminState>>;

/// Builds the router. Live pages stay connected until `replaced` is cancelled.
pub(super) fn router(
    state: Arc<AdminState>,
    hosts: HostCheck,
    replaced: CancellationToken,
) -> Router {
    let level = if state.allows_changes {
        put(log_level::change)
    } else {
        put(log_level::refuse)
    };
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route(
            "/version",
            get(async |State(state): Shared| Json(version(&state))),
        )
        .route(
            "/debug/queues",
            get(async |State(state): Shared| Json(queues::describe(&state))),
        )
        .route(
            "/debug/connections",
            get(async |State(state): Shared| Json(connections::describe(&state))),
        )
        .route("/log/level", level.get(log_level::read))
        .fallback(async || (StatusCode::NOT_FOUND, NO_SUCH_PATH))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .merge(pages::routes(&state, replaced))
        .layer(middleware::from_fn_with_state(hosts, host_check::check))
        .with_state(state)
}

async fn livez(State(state): Shared) -> Response {
    match state.pulse.stalled_for(Instant::now()) {
        None => Json(json!({ "status": "ok" })).into_response(),
        Some(age) => {
            let body = json!({ "status": "stalled", "seconds": age.as_secs() });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

async fn readyz(State(state): Shared) -> Response {
    let (ready, mut body) = readiness(state.broker.get().map(Arc::as_ref), &state.queues);
    // So that `doctor` notices the port of a broker with another configuration.
    let file = state.database_file.as_ref();
    body["database_file"] = file.map(|file| file.display().to_string()).into();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(body)).into_response()
}

/// With many queues the text takes long. It is made on a thread of its own, one after another, so that probes do not wait.
async fn metrics(State(state): Shared) -> Response {
    let turn = state.scrape.clone().lock_owned().await;
    let text = tokio::task::spawn_blocking(move || {
        let text = state.telemetry.prometheus_text();
        drop(turn);
        text
    });
    let text = text.await;
    match text.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(text) => ([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
    }
}
