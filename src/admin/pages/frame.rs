//! Pages that nobody has to log in for, and the head of all pages.

use maud::{DOCTYPE, Markup, html};

/// Returns the element `head`. `refresh`: the browser loads the page again after this number of seconds.
pub(super) fn head(title: &str, refresh: Option<u32>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            @if let Some(seconds) = refresh { meta http-equiv="refresh" content=(seconds); }
            title { (title) " · lease-broker" }
            link rel="stylesheet" href="/style.css";
            link rel="icon" href="/icon.svg" type="image/svg+xml";
        }
    }
}

/// Returns the name of the product, which leads to the first page.
pub(super) fn brand() -> Markup {
    html! {
        a.brand href="/" { img src="/icon.svg" alt="" width="22" height="22"; span { "lease-broker" } }
    }
}

/// Returns a page with one message. `refresh`: the browser loads it again after this number of seconds.
pub(super) fn message_page(title: &str, text: &str, refresh: Option<u32>) -> Markup {
    let content = html! {
        h1 { (title) }
        p.text { (text) }
        @if let Some(seconds) = refresh { p.hint { "This page tries again every " (seconds) " s." } }
        p { a href="/" { "Back to the queues" } }
    };
    plain_page(title, refresh, &content)
}

/// Returns the page for a login.
pub(super) fn login_page(problem: Option<&str>) -> Markup {
    let content = html! {
        h1 { "Log in" }
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        form method="post" action="/login" {
            label for="token" { "Token" }
            input #token type="password" name="token" autocomplete="current-password" required autofocus;
            p.hint { "The token of an identity with the role observer, operator or admin. " code { "lease-broker token new" } " makes one." }
            button.strong type="submit" { "Log in" }
        }
    };
    plain_page("Log in", None, &content)
}

fn plain_page(title: &str, refresh: Option<u32>, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, refresh))
            body {
                header { nav aria-label="Pages" { (brand()) } }
                main #content { div.narrow.panel { (content) } }
            }
        }
    }
}
