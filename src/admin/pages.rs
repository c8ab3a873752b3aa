//! The dashboard: pages for operators, drawn by the server. They work without JavaScript. A script only keeps them fresh.
//!
//! Each page asks `AdminService`, in this process, with the rights of the viewer's identity. So a page shows and changes exactly what the
//! same caller could by gRPC.

mod answer;
mod brokers;
mod chart;
mod confirm;
mod filter;
mod format;
mod frame;
mod item;
mod items;
mod layout;
mod login;
mod operations;
mod queue;
mod queues;
mod sessions;
mod viewer;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use self::answer::file;
pub use self::sessions::Sessions;
use super::state::AdminState;

/// The maximum size of a form, in bytes.
const MAX_FORM_BYTES: usize = 16 << 10;

const STYLE: &str = include_str!("pages/style.css");
const SCRIPT: &str = include_str!("pages/live.js");
/// Returns the routes of the pages.
pub(super) fn routes() -> Router<Arc<AdminState>> {
    Router::new()
        .route("/", get(queues::page))
        .route("/pause", post(queues::pause))
        .route("/resume", post(queues::resume))
        .route("/queues/{queue}", get(queue::page))
        .route("/queues/{queue}/items", get(items::page))
        .route("/queues/{queue}/item", get(item::page))
        .route("/queues/{queue}/confirm", post(confirm::page))
        .route("/queues/{queue}/start", post(confirm::start))
        .route("/operations", get(operations::page))
        .route("/operations/cancel", post(operations::cancel))
        .route("/brokers", get(brokers::page))
        .route("/brokers/drain", post(brokers::drain))
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
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
}
