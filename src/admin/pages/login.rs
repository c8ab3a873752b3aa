//! Login by a token, and logout.

use std::sync::Arc;

use axum::Form;
use axum::extract::State;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;

use super::answer::{Failure, page as page_of, redirect};
use super::frame::login_page;
use super::viewer::{Viewer, cookie, cookie_name, identify};
use crate::admin::seats::peer;
use crate::admin::state::AdminState;
use crate::security::{Refusal, Rpc};

#[derive(Deserialize)]
pub(super) struct Login {
    token: String,
}

#[derive(Deserialize)]
pub(super) struct Logout {
    form: String,
}

pub(super) async fn page(State(state): State<Arc<AdminState>>) -> Response {
    if state.access.is_none() {
        return redirect("/");
    }
    page_of(StatusCode::OK, login_page(None))
}

pub(super) async fn log_in(
    State(state): State<Arc<AdminState>>,
    headers: HeaderMap,
    extensions: Extensions,
    Form(login): Form<Login>,
) -> Response {
    let Some(access) = &state.access else {
        return redirect("/");
    };
    let token = login.token.trim().as_bytes();
    let peer = peer(&extensions);
    let (cause, problem) = match identify(&state, access, token, peer) {
        Ok(caller) if caller.may_somewhere(Rpc::ListQueues) => {
            tracing::info!(
                target: "lease_broker::audit",
                event = "dashboard.login", %peer, identity = caller.name(), "logged in to the dashboard"
            );
            let id = state.sessions.begin(caller.name(), token);
            let mut response = redirect("/");
            let secure = state.tls.as_ref().map_or("", |_| "; Secure");
            let name = cookie_name(&headers);
            let cookie =
                format!("{name}={id}; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200{secure}");
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            return response;
        }
        Ok(_) => (
            "no role for the dashboard",
            "This identity has none of the roles observer, operator and admin.",
        ),
        Err(refusal @ Refusal::TooMany) => (
            refusal.cause(),
            "Too many tokens were tried. Try again in a few seconds.",
        ),
        Err(refusal @ Refusal::Fetching) => (
            refusal.cause(),
            "The keys of the token's issuer are being fetched. Try again in a few seconds.",
        ),
        Err(refusal) => (refusal.cause(), "The token is not valid."),
    };
    tracing::warn!(
        target: "lease_broker::audit",
        event = "dashboard.login_failed", %peer, cause, "login to the dashboard refused"
    );
    page_of(StatusCode::FORBIDDEN, login_page(Some(problem)))
}

pub(super) async fn log_out(
    viewer: Viewer,
    headers: HeaderMap,
    Form(logout): Form<Logout>,
) -> Result<Response, Failure> {
    viewer.check_form(&logout.form)?;
    if let Some(id) = cookie(&headers) {
        viewer.state().sessions.end(&id);
    }
    Ok(redirect("/login"))
}
