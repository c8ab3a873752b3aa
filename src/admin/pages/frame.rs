//! Pages that nobody has to log in for, and the head of all pages.

use maud::{DOCTYPE, Markup, html};

/// Returns the element `head`.
pub(super) fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · lease-broker" }
            link rel="stylesheet" href="/style.css";
        }
    }
}

/// Returns a page with one message.
pub(super) fn message_page(title: &str, text: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                main #content.narrow {
                    h1 { (title) }
                    p { (text) }
                    p { a href="/" { "Back to the queues" } }
                }
            }
        }
    }
}

/// Returns the page for a login.
pub(super) fn login_page(problem: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head("Log in"))
            body {
                main #content.narrow {
                    h1 { "Log in" }
                    @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
                    form method="post" action="/login" {
                        label for="token" { "Token" }
                        input #token type="password" name="token" autocomplete="current-password" required autofocus;
                        p.hint { "The token of an identity with the role observer, operator or admin. " code { "lease-broker token new" } " makes one." }
                        button type="submit" { "Log in" }
                    }
                }
            }
        }
    }
}
