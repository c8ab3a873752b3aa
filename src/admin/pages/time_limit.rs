//! The time limit of a page. It passes before that of the connection, so that a slow database leads to a page that says so.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::timeout_at;
use tonic::Status;

use super::answer::Failure;
use crate::admin::seats::Seat;

/// The time from the acceptance of a connection to the page. The connection ends half a second later.
const LIMIT: Duration = Duration::from_millis(4_500);

/// Answers a request, or tells the viewer that the answer did not come in time.
pub(super) async fn answer(request: Request, next: Next) -> Response {
    let seat = request.extensions().get::<Arc<Seat>>();
    let Some(taken_at) = seat.map(|seat| seat.taken_at()) else {
        return next.run(request).await;
    };
    let answered = timeout_at(taken_at + LIMIT, next.run(request)).await;
    answered.unwrap_or_else(|_| {
        let text = "the database does not answer. A change may still be made, so look again before you repeat it";
        Failure::Call(Status::deadline_exceeded(text)).into_response()
    })
}
