//! The frame of each page: head, navigation and notes.

use maud::{DOCTYPE, Markup, html};

use super::frame::head;
use super::viewer::Viewer;

/// Returns a whole page. `events`: the path of its events, by which the script keeps the element `main` fresh. `None`: the page stays
/// as it is.
pub(super) fn frame(
    viewer: &Viewer,
    title: &str,
    events: Option<&str>,
    content: &Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    nav aria-label="Pages" {
                        a.brand href="/" { "lease-broker" }
                        a href="/" { "Queues" }
                        a href="/operations" { "Operations" }
                        a href="/brokers" { "Brokers" }
                    }
                    div.who {
                        @if !viewer.caller.name().is_empty() { span { (viewer.caller.name()) } }
                        @if viewer.has_session {
                            form method="post" action="/logout" {
                                (form_token(viewer))
                                button.quiet type="submit" { "Log out" }
                            }
                        }
                        @if events.is_some() { span #live.live role="status" aria-live="polite" { } }
                    }
                }
                main #content tabindex="-1" data-events=[events] { (content) }
                script src="/live.js" defer { }
            }
        }
    }
}

/// Returns the hidden field that shows that a form came from this viewer's page.
pub(super) fn form_token(viewer: &Viewer) -> Markup {
    html! { input type="hidden" name="form" value=(viewer.form); }
}
