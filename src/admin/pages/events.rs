//! `GET /events`: server-sent events with the content of a live page, as long as the page is open.
//!
//! | event | data |
//! |---|---|
//! | `message` | the new content of the page, as HTML |
//! | `rows` | the rows that have changed, if nothing else has, as HTML. Often there are none. Only if the query has `rows`: a page that an earlier version has drawn does not know them |
//! | `problem` | the reason why there is no new content, as text |
//!
//! The id of an event is the number of its reading. Without an event for 15 s a comment shows that the connection lives. The next
//! event is drawn when the network has taken the last one, so a viewer that reads nothing holds one.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::answer::Failure;
use super::feed::{Feed, Snapshot, Snapshots};
use super::live_page::{Content, LivePage};
use super::queues::View;
use super::shown::Shown;
use super::viewer::{Credentials, Viewer};
use crate::admin::seats::{MAX_VIEWERS, Seat};
use crate::admin::state::AdminState;

/// The time after which a browser connects again, in milliseconds.
const RETRY: &str = "retry: 2000\n\n";
/// A comment, which browsers skip.
const COMMENT: &str = ":\n\n";
/// The longest silence.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);
/// The time limit for a viewer to read an event.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// What a live page shows, or why that could not be read.
pub(super) type Reading = Result<Content, Status>;
pub(super) type LiveFeed = Feed<LivePage, Reading>;

/// The state that all connections share.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) feed: Arc<LiveFeed>,
    /// Cancelled when live pages must connect again.
    pub(super) replaced: CancellationToken,
}

/// The kinds of events that a page knows beside those that all know.
#[derive(Deserialize)]
pub(super) struct Wanted {
    rows: Option<String>,
}

/// Sends events until the viewer goes.
pub(super) async fn send(
    State(state): State<Arc<AdminState>>,
    Extension(live): Extension<Live>,
    Extension(seat): Extension<Arc<Seat>>,
    Query(page): Query<LivePage>,
    (Query(view), Query(wanted)): (Query<View>, Query<Wanted>),
    credentials: Credentials,
    viewer: Viewer,
) -> Result<Response, Failure> {
    if !page.is_visible(&viewer) {
        return Err(Failure::Forbidden("You have no role for this page."));
    }
    if !seat.follow(viewer.caller.name()) {
        let text = format!(
            "{MAX_VIEWERS} live pages are open at this broker, which is the maximum. Close one, or load the page again to refresh it."
        );
        return Ok((StatusCode::SERVICE_UNAVAILABLE, text).into_response());
    }
    let follower = Follower {
        snapshots: live.feed.follow(page.clone()),
        page,
        view,
        state,
        credentials,
        seat,
        replaced: live.replaced,
        shown: wanted.rows.map(|_| Shown::default()),
        unread: None,
        is_new: true,
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let body = Body::from_stream(stream::unfold(follower, Follower::next));
    Ok((headers, body).into_response())
}

/// A connection that follows a live page.
struct Follower {
    snapshots: Snapshots<Reading>,
    page: LivePage,
    view: View,
    state: Arc<AdminState>,
    /// They identify the viewer again for each event, because they can end, and because the viewer can lose its role.
    credentials: Credentials,
    seat: Arc<Seat>,
    replaced: CancellationToken,
    /// The content of the last event that had some. `None`: the page wants no events of rows.
    shown: Option<Shown>,
    /// Ends when the network has taken the last event. `None`: there was none.
    unread: Option<oneshot::Receiver<()>>,
    /// Nothing was sent yet.
    is_new: bool,
}

impl Follower {
    /// Returns the next part of the response. `None`: the response ends, and the browser connects again.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if let Some(unread) = self.unread.take()
            && tokio::time::timeout(READ_TIMEOUT, unread).await.is_err()
        {
            self.seat.end();
            return None;
        }
        let text = if self.is_new {
            self.is_new = false;
            RETRY.to_owned()
        } else {
            tokio::select! {
                heard = hear(&mut self.snapshots) => match heard? {
                    Heard::Snapshot(snapshot) => self.event(&snapshot)?,
                    Heard::Silence => COMMENT.to_owned(),
                },
                () = self.replaced.cancelled() => return None,
            }
        };
        let (sent, unread) = oneshot::channel();
        self.unread = Some(unread);
        let part = Part { text, _sent: sent };
        Some((Ok(Bytes::from_owner(part)), self))
    }

    /// Returns a snapshot as an event. `None`: the viewer may not look at the page any more.
    fn event(&mut self, snapshot: &Snapshot<Reading>) -> Option<String> {
        let viewer = self.viewer()?;
        let (name, data) = match &snapshot.content {
            Ok(content) => {
                let html = content.draw(&viewer, &self.view).into_string();
                let shown = self.shown.as_mut();
                match shown.and_then(|shown| shown.changed_rows(&html)) {
                    Some(rows) => ("rows", rows),
                    None => ("message", html),
                }
            }
            Err(status) => ("problem", status.message().to_owned()),
        };
        let mut text = format!("id: {}\nevent: {name}\n", snapshot.number);
        // A carriage return ends a line of an event too.
        for line in data.split(['\n', '\r']) {
            // Writing to a text does not fail.
            let _ = writeln!(text, "data: {line}");
        }
        text.push('\n');
        Some(text)
    }

    /// Returns the viewer as its credentials and its roles are now. `None`: it may not look at the page any more.
    fn viewer(&self) -> Option<Viewer> {
        let viewer = Viewer::of(&self.state, &self.credentials).ok()?;
        self.page.is_visible(&viewer).then_some(viewer)
    }
}

/// A message of a feed.
enum Heard<S> {
    Snapshot(S),
    /// No snapshot for 15 s.
    Silence,
}

/// Waits for the next snapshot. `None`: the feed has ended.
async fn hear<C>(snapshots: &mut Snapshots<C>) -> Option<Heard<Arc<Snapshot<C>>>> {
    match tokio::time::timeout(COMMENT_INTERVAL, snapshots.changed()).await {
        Ok(changed) => {
            changed.ok()?;
            snapshots.borrow_and_update().clone().map(Heard::Snapshot)
        }
        Err(_) => Some(Heard::Silence),
    }
}

/// A part of the response, until the network has taken it.
struct Part {
    text: String,
    _sent: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_of_fifteen_seconds_becomes_a_comment() {
        let (feed, mut snapshots) = watch::channel(None);
        let start = Instant::now();
        assert!(matches!(hear(&mut snapshots).await, Some(Heard::Silence)));
        assert_eq!(start.elapsed(), Duration::from_secs(15));
        let (number, content) = (1, "page");
        feed.send_replace(Some(Arc::new(Snapshot { number, content })));
        let heard = hear(&mut snapshots).await;
        assert!(matches!(heard, Some(Heard::Snapshot(page)) if page.content == "page"));
        drop(feed);
        assert!(hear(&mut snapshots).await.is_none());
    }
}
