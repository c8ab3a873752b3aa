//! The dashboard: pages for operators, drawn by the server. They work without JavaScript. A script only keeps them fresh, by
//! server-sent events (`events.rs`).
//!
//! Each page asks `AdminService`, in this process, with the rights of the viewer's identity. So a page shows and changes exactly what the
//! same caller could by gRPC.

mod answer;
mod brokers;
mod calls;
mod chart;
mod confirm;
mod events;
mod feed;
mod filter;
mod format;
mod frame;
mod groups;
mod item;
mod items;
mod layout;
mod leases;
mod live_page;
mod login;
mod operations;
mod queue;
mod queues;
mod sessions;
mod shown;
mod states;
mod time_limit;
mod viewer;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use axum::routing::{get, post};
use axum::{Extension, Router};

use tokio_util::sync::CancellationToken;

use self::answer::file;
use self::events::{Live, LiveFeed};
use self::live_page::LivePage;
pub use self::sessions::Sessions;
use super::state::AdminState;
use crate::grpc::Caller;

/// The maximum size of a form, in bytes.
const MAX_FORM_BYTES: usize = 16 << 10;
/// The maximum size of a form with the keys of marked items, in bytes. 100 keys of 1,024 bytes, of which each is encoded twice, take half
/// of it.
const MAX_MARKED_BYTES: usize = 1 << 20;

const STYLE: &str = include_str!("pages/style.css");
const SCRIPT: &str = include_str!("pages/live.js");
const ICON: &str = include_str!("pages/icon.svg");

/// Returns the routes of the pages. Live pages stay connected until `replaced` is cancelled.
pub(super) fn routes(
    state: &Arc<AdminState>,
    replaced: CancellationToken,
) -> Router<Arc<AdminState>> {
    let read_from = state.clone();
    let feed = LiveFeed::new(move |page: LivePage| {
        let state = read_from.clone();
        Box::pin(async move {
            let read = async move |api, caller| page.read(api, caller).await;
            time_limit::read(calls::make(&state, Caller::unrestricted(), read)).await
        })
    });
    let live = Live {
        feed: Arc::new(feed),
        replaced,
    };
    Router::new()
        .route("/", get(live_page::queues))
        .route("/pause", post(queues::pause))
        .route("/resume", post(queues::resume))
        .route("/queues/{queue}", get(live_page::queue))
        .route("/queues/{queue}/items", get(items::page))
        .route("/queues/{queue}/item", get(item::page))
        .route("/queues/{queue}/groups", get(groups::page))
        .route("/queues/{queue}/groups/pause", post(groups::pause))
        .route("/queues/{queue}/groups/resume", post(groups::resume))
        .route(
            "/queues/{queue}/confirm",
            post(confirm::page).layer(DefaultBodyLimit::max(MAX_MARKED_BYTES)),
        )
        .route(
            "/queues/{queue}/start",
            post(confirm::start).layer(DefaultBodyLimit::max(MAX_MARKED_BYTES)),
        )
        .route(
            "/queues/{queue}/leases/confirm",
            post(leases::confirm).layer(DefaultBodyLimit::max(MAX_MARKED_BYTES)),
        )
        .route(
            "/queues/{queue}/leases/cancel",
            post(leases::cancel).layer(DefaultBodyLimit::max(MAX_MARKED_BYTES)),
        )
        .route("/operations", get(live_page::operations))
        .route("/operations/cancel", post(operations::cancel))
        .route("/brokers", get(live_page::brokers))
        .route("/brokers/drain", post(brokers::drain))
        .route("/events", get(events::send))
        .route("/login", get(login::page).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route(
            "/style.css",
            get(async || file("text/css; charset=utf-8", STYLE)),
        )
        .route(
            "/live.js",
            get(async || file("text/javascript; charset=utf-8", SCRIPT)),
        )
        .route("/icon.svg", get(async || file("image/svg+xml", ICON)))
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .layer(from_fn(time_limit::answer))
        .layer(Extension(live))
}
