//! `GET` and `PUT /log/level`: reads and changes the level of the log.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{Extensions, StatusCode};
use serde::Deserialize;

use super::seats::peer;
use super::state::AdminState;
use crate::logging::LogLevel;

/// The answer to a change that is not allowed.
const CHANGES_REFUSED: &str =
    "the admin port is not on a loopback address: set admin.allow_changes to allow changes";

/// The longest change for a time: 7 days. A longer one is almost certainly given in the wrong unit.
const MAX_DURATION: Duration = Duration::from_secs(7 * 86_400);

/// The parameters of a change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// The duration of the change, such as `10m`, up to [`MAX_DURATION`]. Absent: until the next change.
    #[serde(rename = "for")]
    duration: Option<String>,
}

/// Returns the level in effect.
pub(super) async fn read(State(state): State<Arc<AdminState>>) -> String {
    state.log_level.current()
}

/// Sets the level that the body names.
pub(super) async fn change(
    State(state): State<Arc<AdminState>>,
    Query(change): Query<Change>,
    extensions: Extensions,
    level: String,
) -> (StatusCode, String) {
    let parse = |text: String| -> Result<Duration, String> {
        let duration = humantime::parse_duration(&text)
            .map_err(|error| format!("for: {text:?} is not a duration such as \"10m\": {error}"))?;
        if duration > MAX_DURATION {
            return Err(format!("for: {text} is longer than the maximum of 7 days"));
        }
        Ok(duration)
    };
    let duration = change.duration.map(parse).transpose();
    let peer = peer(&extensions);
    let set = |duration| state.log_level.set(level.trim(), duration, peer);
    let changed = duration.and_then(set);
    match changed {
        Ok(()) => (StatusCode::OK, state.log_level.current()),
        Err(problem) if problem == LogLevel::TOO_OFTEN => (StatusCode::TOO_MANY_REQUESTS, problem),
        Err(problem) => (StatusCode::BAD_REQUEST, problem),
    }
}

/// Refuses a change.
pub(super) async fn refuse(extensions: Extensions) -> (StatusCode, &'static str) {
    let peer = peer(&extensions);
    tracing::warn!(
        target: "lease_broker::audit",
        event = "log.level_refused", %peer, "change of the log level refused: admin.allow_changes is not set"
    );
    (StatusCode::FORBIDDEN, CHANGES_REFUSED)
}
