//! The frame of each page: head, navigation and notes.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{DOCTYPE, Markup, html};

use super::answer::page;
use super::format;
use super::frame::{brand, head};
use super::viewer::Viewer;

/// A part of the navigation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Queues,
    Operations,
    Brokers,
}

/// Answers with a whole page. `events`: the path of its events, by which the script keeps the element `main` fresh. `None`: the page
/// stays as it is.
pub(super) fn framed(
    viewer: &Viewer,
    (title, section): (&str, Section),
    events: Option<&str>,
    content: &Markup,
) -> Response {
    let link = |to: Section, path: &str, text: &str| {
        let current = (to == section).then_some("page");
        html! { a href=(path) aria-current=[current] { (text) } }
    };
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, None))
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    nav aria-label="Pages" {
                        (brand())
                        (link(Section::Queues, "/", "Queues"))
                        (link(Section::Operations, "/operations", "Operations"))
                        (link(Section::Brokers, "/brokers", "Brokers"))
                    }
                    div.who {
                        @if events.is_some() { span #pulse.pulse { } }
                        @if !viewer.caller.name().is_empty() { span { (viewer.caller.name()) } }
                        @if viewer.caller.name().is_empty() && viewer.state().access.is_some() { a href="/login" { "Log in" } }
                        @if viewer.has_session {
                            form method="post" action="/logout" {
                                (form_token(viewer))
                                button.quiet type="submit" { "Log out" }
                            }
                        }
                    }
                }
                @if events.is_some() { p #live.banner role="status" aria-live="polite" { } }
                main #content tabindex="-1" data-events=[events] { (content) }
                footer { "lease-broker " (env!("CARGO_PKG_VERSION")) " on " (viewer.state().store.name()) }
                script src="/live.js" defer { }
            }
        }
    };
    page(StatusCode::OK, markup)
}

/// Returns the hidden field that shows that a form came from this viewer's page.
pub(super) fn form_token(viewer: &Viewer) -> Markup {
    html! { input type="hidden" name="form" value=(viewer.form); }
}

/// Returns a key with a link to its item. `path`: that of items, without the key.
pub(super) fn key_link(path: &str, key: &str) -> Markup {
    html! {
        @if format::can_link(key) { a href={ (path) (format::url(key)) } { (format::name(key)) } } @else { (format::name(key)) }
    }
}
