//! The content of the page of all queues, and the forms that pause and resume one.

use axum::Form;
use axum::response::Response;
use lease_broker_proto::{
    ListQueuesRequest, ListQueuesResponse, PauseMode, PauseQueueRequest, QueuePause, QueueSummary,
    ResumeQueueRequest,
};
use maud::{Markup, html};
use serde::Deserialize;
use tonic::Status;

use super::answer::{Failure, redirect};
use super::chart::sparkline;
use super::format;
use super::layout::form_token;
use super::viewer::Viewer;
use crate::grpc::{AdminApi, AdminCaller};
use crate::security::Rpc;

#[derive(Deserialize)]
pub(super) struct Pause {
    form: String,
    queue: String,
    mode: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
pub(super) struct Resume {
    form: String,
    queue: String,
}

/// Reads what the page shows to a caller.
pub(super) async fn read(
    api: &AdminApi,
    caller: &AdminCaller,
) -> Result<ListQueuesResponse, Status> {
    api.list_queues(caller, ListQueuesRequest::default()).await
}

/// Draws the content of the page, without the queues that the viewer may not see.
pub(super) fn content(viewer: &Viewer, listed: &ListQueuesResponse) -> Markup {
    let queues = listed.queues.iter();
    let queues = queues.filter(|queue| viewer.caller.may(Rpc::ListQueues, &queue.queue));
    let queues: Vec<&QueueSummary> = queues.collect();
    let paused = queues.iter().filter(|queue| queue.pause.is_some()).count();
    html! {
        div.title {
            h1 { "Queues" }
            p.hint {
                (queues.len()) @if queues.len() == 1 { " queue" } @else { " queues" }
                @if paused > 0 { ", " strong { (paused) " paused" } }
            }
        }
        @if queues.is_empty() {
            p.empty { "You have no role on any queue." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Queues" {
                table {
                    thead { tr {
                        th scope="col" { "Queue" }
                        @for (_, name) in format::STATES { th.number scope="col" { (name) } }
                        th.number scope="col" { "Oldest ready" }
                        th.number scope="col" { "Oldest lease" }
                        th.number scope="col" { "Claimed/s" }
                        th.number scope="col" { "Completed/s" }
                        th.number scope="col" { "Failed/s" }
                        th scope="col" { "Completed, 15 min" }
                        th scope="col" { "Actions" }
                    } }
                    tbody { @for queue in &queues { (row(viewer, queue)) } }
                }
            }
        }
    }
}

fn row(viewer: &Viewer, queue: &QueueSummary) -> Markup {
    let name = &queue.queue;
    let link = format!("/queues/{}", format::url(name));
    let history = viewer.state().broker.get();
    let history = history.map(|broker| broker.activity_history().of(name));
    let completed: Vec<f64> = history
        .unwrap_or_default()
        .iter()
        .map(|sample| sample.completed)
        .collect();
    let rates = queue.rates.unwrap_or_default();
    html! {
        tr.paused[queue.pause.is_some()] {
            th scope="row" {
                a href=(link) { (name) }
                @if let Some(pause) = &queue.pause { (pause_note(pause)) }
                @for operation in &queue.operations {
                    div.note { a href="/operations" { (super::operations::kind(operation)) " runs: " (format::count(operation.changed, false)) " changed" } }
                }
            }
            @for count in &queue.counts {
                @let state = format::state(count.state());
                td.number.dead[state == "dead" && count.count > 0] {
                    @if count.count > 0 {
                        a href={ (link) "/items?state=" (state) } { (format::count(count.count, count.at_least)) }
                    } @else { span.zero { "0" } }
                }
            }
            td.number { (queue.oldest_ready.map_or("–".to_owned(), format::proto_duration)) @if queue.oldest_ready_sampled { "+" } }
            td.number { (queue.oldest_lease.map_or("–".to_owned(), format::proto_duration)) @if queue.oldest_lease_sampled { "+" } }
            td.number { (format::rate(rates.claimed)) }
            td.number { (format::rate(rates.completed)) }
            td.number { (format::rate(rates.failed)) }
            td { (sparkline(&completed, &format!("{name}: {} completed per second", format::rate(rates.completed)))) }
            td { (pause_form(viewer, name, queue.pause.is_some())) }
        }
    }
}

/// Returns who paused a queue, why, and until when.
pub(super) fn pause_note(pause: &QueuePause) -> Markup {
    let what = match pause.mode() {
        PauseMode::Enqueue => "paused for new items",
        PauseMode::Both => "paused for claims and new items",
        PauseMode::Claims | PauseMode::Unspecified => "paused",
    };
    html! {
        div.note {
            strong.badge { (what) }
            @if !pause.actor.is_empty() { " by " (pause.actor) }
            @if let Some(time) = &pause.pause_time { " " (format::ago(time)) }
            @if let Some(until) = &pause.until { ", ends " (format::ago(until)) }
            @if !pause.reason.is_empty() { ": " (pause.reason) }
        }
    }
}

/// Returns the form that pauses or resumes a queue, if the viewer may.
pub(super) fn pause_form(viewer: &Viewer, queue: &str, is_paused: bool) -> Markup {
    let may = viewer.caller.may(Rpc::PauseQueue, queue);
    html! {
        @if may && is_paused {
            form method="post" action="/resume" {
                (form_token(viewer))
                input type="hidden" name="queue" value=(queue);
                button type="submit" { "Resume" span.hidden { " " (queue) } }
            }
        } @else if may {
            details.menu {
                summary { "Pause" span.hidden { " " (queue) } }
                form method="post" action="/pause" {
                    (form_token(viewer))
                    input type="hidden" name="queue" value=(queue);
                    label { "Reason" input type="text" name="reason" maxlength="1024"; }
                    label { "Stop"
                        select name="mode" {
                            option value="claims" { "claims" }
                            option value="enqueue" { "new items" }
                            option value="both" { "both" }
                        }
                    }
                    button type="submit" { "Pause" span.hidden { " " (queue) } }
                }
            }
        }
    }
}

pub(super) async fn pause(viewer: Viewer, Form(form): Form<Pause>) -> Result<Response, Failure> {
    viewer.check_form(&form.form)?;
    let mode = match &*form.mode {
        "enqueue" => PauseMode::Enqueue,
        "both" => PauseMode::Both,
        _ => PauseMode::Claims,
    };
    let request = PauseQueueRequest {
        queue: form.queue,
        mode: mode.into(),
        reason: form.reason,
        until: None,
    };
    viewer
        .call(async move |api, caller| api.pause_queue(&caller, request).await)
        .await?;
    Ok(redirect("/"))
}

pub(super) async fn resume(viewer: Viewer, Form(form): Form<Resume>) -> Result<Response, Failure> {
    viewer.check_form(&form.form)?;
    let request = ResumeQueueRequest {
        queue: form.queue,
        reason: String::new(),
    };
    viewer
        .call(async move |api, caller| api.resume_queue(&caller, request).await)
        .await?;
    Ok(redirect("/"))
}
