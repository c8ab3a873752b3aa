//! The content of the page of all queues, and the forms that pause and resume one.

use std::cmp::Reverse;
use std::fmt::Write as _;

use axum::Form;
use axum::response::Response;
use lease_broker_proto::{
    ItemState, ListQueuesRequest, ListQueuesResponse, PauseMode, PauseQueueRequest, QueuePause,
    QueueSummary, ResumeQueueRequest,
};
use maud::{Markup, html};
use serde::Deserialize;
use tonic::Status;

use super::answer::{Failure, redirect};
use super::chart::{Sample, Span, sparkline};
use super::format;
use super::layout::form_token;
use super::viewer::Viewer;
use crate::broker::ActivitySample;
use crate::grpc::{AdminApi, Caller, Words as _};
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

/// Which queues a viewer wants to see, and in which order.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    /// A part of the names. Empty: all queues.
    find: String,
    /// A column, whose largest value comes first. Empty or unknown: by the names.
    sort: String,
}

impl View {
    /// Returns the view as the end of a query.
    pub(super) fn query(&self) -> String {
        let mut query = String::new();
        for (name, value) in [("find", &self.find), ("sort", &self.sort)] {
            if !value.is_empty() {
                // Writing to a text does not fail.
                let _ = write!(query, "&{name}={}", format::url(value));
            }
        }
        query
    }

    fn fits(&self, queue: &QueueSummary) -> bool {
        let find = self.find.trim().to_lowercase();
        queue.queue.to_lowercase().contains(&find)
    }

    fn sort(&self, queues: &mut [&QueueSummary]) {
        let age = |age: Option<prost_types::Duration>| age.map_or(-1, |age| age.seconds);
        // Rates are compared in thousandths.
        #[expect(clippy::cast_possible_truncation)]
        let rate = |rate: f64| (rate * 1_000.0) as i64;
        let rates = |queue: &QueueSummary| queue.rates.unwrap_or_default();
        let value = |queue: &QueueSummary| match &*self.sort {
            "oldest-ready" => age(queue.oldest_ready),
            "oldest-lease" => age(queue.oldest_lease),
            "claimed" => rate(rates(queue).claimed),
            "completing" => rate(rates(queue).completed),
            "failed" => rate(rates(queue).failed),
            state => {
                let mut counts = queue.counts.iter();
                let found = counts.find(|count| count.state().word() == state);
                found.map_or(0, |count| count.count)
            }
        };
        queues.sort_by_key(|queue| Reverse(value(queue)));
    }
}

/// The columns after the name: the word of the view's order, the heading, and the whole name.
const COLUMNS: [(&str, &str, &str); 10] = [
    ("ready", "ready", "Ready"),
    ("leased", "leased", "Leased"),
    ("delayed", "delayed", "Delayed"),
    ("completed", "completed", "Completed"),
    ("dead", "dead", "Dead"),
    ("oldest-ready", "ready", "Oldest ready"),
    ("oldest-lease", "lease", "Oldest lease"),
    ("claimed", "claimed", "Claimed per second"),
    ("completing", "completed", "Completed per second"),
    ("failed", "failed", "Failed per second"),
];

/// Reads the data of the page that the caller may see.
pub(super) async fn read(api: &AdminApi, caller: &Caller) -> Result<ListQueuesResponse, Status> {
    api.list_queues(caller, ListQueuesRequest::default()).await
}

/// Draws the content of the page, without the queues that the viewer may not see.
pub(super) fn content(viewer: &Viewer, listed: &ListQueuesResponse, view: &View) -> Markup {
    let queues = listed.queues.iter();
    let visible = queues.filter(|queue| viewer.caller.may(Rpc::ListQueues, &queue.queue));
    let visible: Vec<&QueueSummary> = visible.collect();
    let paused = visible.iter().filter(|queue| queue.pause.is_some()).count();
    let queues = visible.iter().copied().filter(|queue| view.fits(queue));
    let mut queues: Vec<&QueueSummary> = queues.collect();
    view.sort(&mut queues);
    html! {
        div.title {
            h1 { "Queues" }
            p.hint {
                (format::number(visible.len(), "queue", "queues"))
                @if queues.len() < visible.len() { ", " (queues.len()) " shown" }
                @if paused > 0 { ", " strong.warn { (paused) " paused" } }
            }
            @if visible.len() > 5 { (find_form(view)) }
        }
        @if visible.is_empty() {
            p.empty { "You have no role on any queue." }
        } @else if queues.is_empty() {
            p.empty { "No queue has this in its name. " a href="/" { "Show all" } }
        } @else {
            (table(viewer, &queues, view))
        }
    }
}

fn find_form(view: &View) -> Markup {
    html! {
        form.find method="get" role="search" {
            label { span.hidden { "Find queues by name" }
                input type="search" name="find" value=(view.find) placeholder="Find by name" maxlength="128";
            }
            @if !view.sort.is_empty() { input type="hidden" name="sort" value=(view.sort); }
            button type="submit" { "Find" }
        }
    }
}

fn table(viewer: &Viewer, queues: &[&QueueSummary], view: &View) -> Markup {
    let history = |name: &str| {
        let broker = viewer.state().broker.get();
        broker.map_or_else(Vec::new, |broker| broker.activity_history().of(name))
    };
    let histories: Vec<Vec<ActivitySample>> =
        queues.iter().map(|queue| history(&queue.queue)).collect();
    let span = Span::of(histories.iter().flatten().map(|sample| sample.age));
    html! {
        div.scroll tabindex="0" role="region" aria-label="Queues" {
            table.cards.wide {
                thead {
                    tr {
                        th scope="col" rowspan="2" { a href="/" { "Queue" } }
                        th.group scope="colgroup" colspan="5" { "Items" }
                        th.group scope="colgroup" colspan="2" { "Oldest" }
                        th.group scope="colgroup" colspan="3" { "Per second" }
                        th scope="col" rowspan="2" { "Completed, " (span) }
                        th scope="col" rowspan="2" { span.hidden { "Actions" } }
                    }
                    tr { @for (sort, heading, name) in COLUMNS { (heading_cell(view, sort, heading, name)) } }
                }
                tbody {
                    @for (queue, history) in queues.iter().zip(&histories) { (row(viewer, queue, history, span)) }
                }
            }
        }
    }
}

fn heading_cell(view: &View, sort: &str, heading: &str, name: &str) -> Markup {
    let sorted = View {
        sort: sort.to_owned(),
        ..view.clone()
    };
    let is_sorted = view.sort == sort;
    let query = sorted.query();
    let title = format!("{name}: largest first");
    html! {
        th.number scope="col" aria-sort=[is_sorted.then_some("descending")] {
            a href={ "/?" (query.trim_start_matches('&')) } title=(title) { (heading) @if is_sorted { " ↓" } }
        }
    }
}

fn row(viewer: &Viewer, queue: &QueueSummary, history: &[ActivitySample], span: Span) -> Markup {
    let name = &queue.queue;
    let link = format!("/queues/{}", format::url(name));
    let completed = history.iter().map(|sample| Sample {
        age: sample.age,
        value: sample.activity.completed,
    });
    let completed: Vec<Sample> = completed.collect();
    let rates = queue.rates.unwrap_or_default();
    let completing = format::rate(rates.completed);
    let label = format!("{name}: {completing} completed per second");
    html! {
        tr #{ "queue-" (name) } .paused[queue.pause.is_some()] {
            th scope="row" {
                a href=(link) { (name) }
                @if let Some(pause) = &queue.pause { (pause_note(pause)) }
                @if !queue.problem.is_empty() {
                    div.note { strong.badge.warn { "problem" } " " (format::text(&queue.problem)) }
                }
                @for operation in &queue.operations {
                    div.note { a href="/operations" { (super::operations::kind(operation)) " runs: " (format::count(operation.changed, false)) " changed" } }
                }
            }
            @if queue.counts.is_empty() {
                @for (_, state) in ItemState::WORDS { td.number data-label=(state) { span.zero { "–" } } }
            }
            @for count in &queue.counts {
                @let state = count.state().word();
                td.number.dead[state == "dead" && count.count > 0] data-label=(state) {
                    @if count.count > 0 {
                        a href={ (link) "/items?state=" (state) } { (format::count(count.count, count.at_least)) }
                    } @else { span.zero { "0" } }
                }
            }
            td.number data-label="oldest ready" { (age(queue.oldest_ready, queue.oldest_ready_sampled)) }
            td.number data-label="oldest lease" { (age(queue.oldest_lease, queue.oldest_lease_sampled)) }
            td.number data-label="claimed/s" { (rate(rates.claimed)) }
            td.number data-label="completed/s" { (rate(rates.completed)) }
            td.number.failing[rates.failed > 0.0] data-label="failed/s" { (rate(rates.failed)) }
            td.line { (sparkline(&completed, span, &label)) }
            td.actions { (pause_form(viewer, name, queue.pause.is_some())) }
        }
    }
}

fn age(age: Option<prost_types::Duration>, is_sampled: bool) -> Markup {
    html! {
        @match age {
            None => span.zero { "–" },
            Some(age) => { (format::proto_duration(age)) @if is_sampled { "+" } }
        }
    }
}

fn rate(rate: f64) -> Markup {
    html! { span.zero[rate == 0.0] { (format::rate(rate)) } }
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
            strong.badge.warn { (what) }
            @if !pause.actor.is_empty() { " by " (format::text(&pause.actor)) }
            @if let Some(time) = &pause.pause_time { " " (format::ago(time)) }
            @if let Some(until) = &pause.until { ", ends " (format::ago(until)) }
            @if !pause.reason.is_empty() { ": " (format::text(&pause.reason)) }
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
                    label { "Reason, for your colleagues" input type="text" name="reason" maxlength="1024"; }
                    label { "What is refused meanwhile"
                        select name="mode" {
                            option value="claims" { "claims of workers" }
                            option value="enqueue" { "new items" }
                            option value="both" { "both" }
                        }
                    }
                    button.strong type="submit" { "Pause" span.hidden { " " (queue) } }
                }
            }
        }
    }
}

pub(super) async fn pause(viewer: Viewer, Form(form): Form<Pause>) -> Result<Response, Failure> {
    viewer.check_form(&form.form)?;
    let mode = PauseMode::of_word(&form.mode);
    let mode =
        mode.ok_or_else(|| Status::invalid_argument("mode: must be claims, enqueue or both"))?;
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

#[cfg(test)]
mod tests {
    use lease_broker_proto::StateCount;

    use super::*;

    fn queue(name: &str, dead: i64) -> QueueSummary {
        let count = StateCount {
            state: ItemState::Dead.into(),
            count: dead,
            at_least: false,
        };
        QueueSummary {
            queue: name.to_owned(),
            counts: vec![count],
            ..QueueSummary::default()
        }
    }

    #[test]
    fn largest_values_come_first_and_names_keep_their_order() {
        let queues = [queue("a", 0), queue("b", 7), queue("c", 0), queue("d", 9)];
        let names = |sort: &str, find: &str| {
            let view = View {
                sort: sort.to_owned(),
                find: find.to_owned(),
            };
            let mut queues: Vec<_> = queues.iter().filter(|queue| view.fits(queue)).collect();
            view.sort(&mut queues);
            let names: Vec<&str> = queues.iter().map(|queue| &*queue.queue).collect();
            names.concat()
        };
        assert_eq!(names("", ""), "abcd");
        assert_eq!(names("dead", ""), "dbac");
        assert_eq!(names("dead", " B"), "b");
    }
}
