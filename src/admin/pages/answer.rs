//! Answers: pages with their headers, files, redirects and failures.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::Markup;
use tonic::{Code, Status};

use super::frame::message_page;
use crate::security::Refusal;

/// Nothing but the page's own files is loaded, and no other site shows the page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

pub(super) fn file(media_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}

/// Returns a page with the headers that every page has.
pub(super) fn page(status: StatusCode, markup: Markup) -> Response {
    let mut response = (status, Html(markup.into_string())).into_response();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // With `no-referrer`, browsers send forms of the page with the origin `null`, which the host check refuses.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The failure of a page.
pub(super) enum Failure {
    /// The viewer has to log in first.
    Login,
    /// The viewer may not do this, or the form is not one of these pages.
    Forbidden(&'static str),
    /// The broker has not started yet.
    Starting,
    /// The token cannot be checked now.
    Unchecked,
    /// The service refused the call.
    Call(Status),
}

impl Failure {
    /// Returns the failure of a page whose token was refused.
    pub(super) const fn of_refusal(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Missing | Refusal::Invalid { .. } => Self::Login,
            Refusal::Fetching | Refusal::TooMany => Self::Unchecked,
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Call(status)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        /// The seconds after which a page is loaded again that cannot be shown yet.
        const RETRY: u32 = 3;

        let refresh = matches!(self, Self::Starting | Self::Unchecked).then_some(RETRY);
        let (code, title, text) = match self {
            Self::Login => return redirect("/login"),
            Self::Forbidden(text) => (StatusCode::FORBIDDEN, "Not allowed", text.to_owned()),
            Self::Starting => (
                StatusCode::SERVICE_UNAVAILABLE,
                "The broker is starting",
                "The store is being opened.".to_owned(),
            ),
            Self::Unchecked => (
                StatusCode::SERVICE_UNAVAILABLE,
                "The token cannot be checked now",
                "The keys of its issuer are being fetched, or too many tokens were tried."
                    .to_owned(),
            ),
            Self::Call(status) => {
                let (code, title) = match status.code() {
                    Code::NotFound => (StatusCode::NOT_FOUND, "Not found"),
                    Code::InvalidArgument => (StatusCode::BAD_REQUEST, "A field is not right"),
                    Code::FailedPrecondition => (StatusCode::CONFLICT, "Not possible now"),
                    Code::PermissionDenied => (StatusCode::FORBIDDEN, "Not allowed"),
                    _ => (
                        StatusCode::SERVICE_UNAVAILABLE,
                        "The service did not answer",
                    ),
                };
                (code, title, status.message().to_owned())
            }
        };
        page(code, message_page(title, &text, refresh))
    }
}

/// Sends the browser to another page, which it gets with GET.
pub(super) fn redirect(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}
