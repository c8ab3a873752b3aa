//! The page of one item.

use axum::extract::{Path, Query};
use axum::response::Response;
use lease_broker_proto::{GetItemRequest, GetItemResponse, ItemState, ItemSummary};
use maud::{Markup, html};

use super::answer::Failure;
use super::filter::{Fields, Filter};
use super::layout::{Section, form_token, framed};
use super::states::state_badge;
use super::viewer::Viewer;
use super::{format, leases};
use crate::security::Rpc;

pub(super) async fn page(
    viewer: Viewer,
    Path(queue): Path<String>,
    Query(fields): Query<Fields>,
) -> Result<Response, Failure> {
    let key = Filter::of(&fields).keys.pop().unwrap_or_default();
    let request = GetItemRequest {
        queue: queue.clone(),
        key: key.clone(),
    };
    let found = viewer
        .call(async move |api, caller| api.get_item(&caller, request).await)
        .await?;
    let content = content(&viewer, &queue, &found);
    let title = format!("{} of {queue}", format::name(&key));
    Ok(framed(&viewer, (&title, Section::Queues), None, &content))
}

fn content(viewer: &Viewer, queue: &str, found: &GetItemResponse) -> Markup {
    let item = found.item.clone().unwrap_or_default();
    let link = format!("/queues/{}", format::url(queue));
    let may_change = viewer.caller.may(Rpc::StartOperation, queue);
    html! {
        div.title {
            h1 { a href=(link) { (queue) } span.sep { " / " } (format::name(&item.key)) }
            p { (state_badge(item.state())) }
            @if may_change {
                div.row.actions {
                    @if item.state() == ItemState::Dead { (redrive_form(viewer, &link, &item.key)) }
                    @if item.state() == ItemState::Leased { (cancel_form(viewer, queue, &item)) }
                }
            }
        }
        @if !found.causes.is_empty() {
            section.why aria-labelledby="why" { h2 #why { "Why is it not being claimed?" } @for cause in &found.causes { p.text { (cause) } } }
        }
        div.columns {
        section aria-labelledby="lease" {
            h2 #lease { "Lease" }
            dl {
                dt { "Worker" } dd { @if item.owner.is_empty() { "–" } @else { (format::text(&item.owner)) } }
                dt { "In this state since" } dd { (time(item.state_time.as_ref(), &format::age(item.age))) }
                dt { "Due" } dd { (time(item.due_time.as_ref(), &format::due(item.due_in))) }
                dt { "Attempts used" } dd { (item.attempt) }
                dt { "Fencing token" } dd { (item.fencing_token) }
                dt { "Last error" } dd.text { @if item.error.is_empty() { "–" } @else { (format::text(&item.error)) } }
                dt { "Checkpoint" } dd { (found.checkpoint_bytes.map_or("–".to_owned(), |bytes| format!("{bytes} bytes"))) }
                dt { "Trace" } dd { (trace(viewer, &found.trace_parent)) }
            }
        }
        section aria-labelledby="columns" {
            h2 #columns { "Row" }
            dl { @for (name, value) in &found.columns { dt { (name) } dd.text { (format::value(value)) } } }
        }
        }
    }
}

/// Returns a moment with its distance from now.
fn time(time: Option<&prost_types::Timestamp>, distance: &str) -> Markup {
    html! {
        @match time {
            None => "–",
            Some(time) => { time datetime=(format::moment(time)) { (format::moment(time)) } " (" (distance) ")" }
        }
    }
}

/// Returns the trace id, as a link if the configuration has an address for traces.
fn trace(viewer: &Viewer, parent: &str) -> Markup {
    let id = parent.split('-').nth(1).unwrap_or_default();
    let address = &viewer.state().trace_url;
    html! {
        @if id.is_empty() { "–" }
        @else if address.is_empty() { code { (id) } }
        @else { a href=(address.replace("{trace_id}", id)) rel="noreferrer" { code { (id) } } }
    }
}

fn redrive_form(viewer: &Viewer, link: &str, key: &str) -> Markup {
    let filter = Filter {
        state: "dead".to_owned(),
        keys: vec![key.to_owned()],
        ..Filter::default()
    };
    html! {
        form method="post" action={ (link) "/confirm" } {
            (form_token(viewer))
            (filter.hidden_field())
            button type="submit" name="change" value="redrive" { "Redrive …" }
        }
    }
}

fn cancel_form(viewer: &Viewer, queue: &str, item: &ItemSummary) -> Markup {
    html! {
        form method="post" action=(leases::question(queue)) {
            (form_token(viewer))
            (leases::hidden_field(item))
            button type="submit" { "Take the lease away …" }
        }
    }
}
