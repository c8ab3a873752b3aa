//! The time limit of a page. It passes before that of the connection, so that a slow database leads to a page that says so.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::{timeout, timeout_at};
use tonic::Status;

use super::answer::Failure;
use crate::admin::seats::Seat;

/// The time from the acceptance of a connection to the page, which is shorter than that of the connection. A live page is read for as
/// long.
const LIMIT: Duration = Duration::from_millis(4_500);

/// The reason why a page cannot be shown.
const READ_LATE: &str =
    "the database does not answer, or another program has locked a table. Load the page again";
/// The answer to a change.
const CHANGE_LATE: &str =
    "the database does not answer. A change may still be made, so look again before you repeat it";

/// Answers a request, or tells the viewer that the answer did not come in time.
pub(super) async fn answer(request: Request, next: Next) -> Response {
    let seat = request.extensions().get::<Arc<Seat>>();
    let Some(taken_at) = seat.map(|seat| seat.taken_at()) else {
        return next.run(request).await;
    };
    let text = late(request.method());
    let answered = timeout_at(taken_at + LIMIT, next.run(request)).await;
    answered.unwrap_or_else(|_| Failure::Call(Status::deadline_exceeded(text)).into_response())
}

/// Reads a live page, or returns the reason why it was not read in time.
///
/// # Errors
/// Those of the reading.
pub(super) async fn read<T>(reading: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let read = timeout(LIMIT, reading).await;
    read.unwrap_or_else(|_| Err(Status::deadline_exceeded(READ_LATE)))
}

/// Returns the text for a request with this method that is not answered in time.
fn late(method: &Method) -> &'static str {
    if method.is_safe() {
        READ_LATE
    } else {
        CHANGE_LATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_page_speaks_of_no_change() {
        assert!(!late(&Method::GET).contains("change"));
        assert!(late(&Method::POST).contains("change may still be made"));
    }
}
