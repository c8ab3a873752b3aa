//! The groups of a queue: the first ones on the queue's page, the list with a filter, and the forms that pause and resume one.

use axum::Form;
use axum::extract::{Path, Query};
use axum::response::Response;
use lease_broker_proto::{
    GroupPause, GroupState, GroupSummary, ListGroupsRequest, ListGroupsResponse, PauseGroupRequest,
    QueuePause, ResumeGroupRequest,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::answer::{Failure, redirect};
use super::format;
use super::layout::{Section, form_token, framed, key_link};
use super::queues::pause_note;
use super::viewer::Viewer;
use crate::grpc::Words as _;
use crate::security::Rpc;

/// The number of groups on a page.
const PAGE: i32 = 100;
/// A state can have few groups of many. So this many pages are looked through for one page of the browser.
const MAX_PARTS: usize = 10;
/// The query of the list.
#[derive(Deserialize)]
pub(super) struct Fields {
    #[serde(default)]
    state: String,
    #[serde(default)]
    page: String,
}

#[derive(Deserialize)]
pub(super) struct Pause {
    form: String,
    group: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
pub(super) struct Resume {
    form: String,
}

/// The query of the form that resumes a group. Browsers change the line ends in the fields of forms, and a group may have some.
#[derive(Deserialize)]
pub(super) struct Paused {
    group: String,
}

pub(super) async fn page(
    viewer: Viewer,
    Path(queue): Path<String>,
    Query(fields): Query<Fields>,
) -> Result<Response, Failure> {
    let state = GroupState::of_word(&fields.state).unwrap_or_default();
    let request = ListGroupsRequest {
        queue: queue.clone(),
        state: state.into(),
        page_size: PAGE,
        page_token: fields.page.clone(),
    };
    let listed = viewer
        .call(async move |api, caller| {
            let mut listed = api.list_groups(&caller, request.clone()).await?;
            let mut parts = 1;
            while listed.groups.is_empty()
                && !listed.next_page_token.is_empty()
                && parts < MAX_PARTS
            {
                parts += 1;
                let next = ListGroupsRequest {
                    page_token: listed.next_page_token,
                    ..request.clone()
                };
                listed = api.list_groups(&caller, next).await?;
            }
            Ok(listed)
        })
        .await?;
    let content = content(&viewer, &queue, state, &fields.page, &listed);
    let title = format!("groups of {queue}");
    Ok(framed(&viewer, (&title, Section::Queues), None, &content))
}

pub(super) async fn pause(
    viewer: Viewer,
    Path(queue): Path<String>,
    Form(form): Form<Pause>,
) -> Result<Response, Failure> {
    viewer.check_form(&form.form)?;
    let back = link(&queue);
    let request = PauseGroupRequest {
        queue,
        group: form.group,
        reason: form.reason,
        until: None,
    };
    viewer
        .call(async move |api, caller| api.pause_group(&caller, request).await)
        .await?;
    Ok(redirect(&back))
}

pub(super) async fn resume(
    viewer: Viewer,
    Path(queue): Path<String>,
    Query(paused): Query<Paused>,
    Form(form): Form<Resume>,
) -> Result<Response, Failure> {
    viewer.check_form(&form.form)?;
    let back = link(&queue);
    let request = ResumeGroupRequest {
        queue,
        group: paused.group,
        reason: String::new(),
    };
    viewer
        .call(async move |api, caller| api.resume_group(&caller, request).await)
        .await?;
    Ok(redirect(&back))
}

/// Returns the path of the list.
pub(super) fn link(queue: &str) -> String {
    format!("/queues/{}/groups", format::url(queue))
}

fn content(
    viewer: &Viewer,
    queue: &str,
    state: GroupState,
    page: &str,
    listed: &ListGroupsResponse,
) -> Markup {
    let to_queue = format!("/queues/{}", format::url(queue));
    let query = |page: &str| format!("?state={}&page={}", name(state), format::url(page));
    html! {
        div.title { h1 { a href=(to_queue) { (queue) } span.sep { " / " } "groups" } }
        nav.tabs aria-label="States" {
            @for (one, name) in [(GroupState::Unspecified, "all")].iter().chain(GroupState::WORDS) {
                @let current = (*one == state).then_some("page");
                a href={ "?state=" (name) } aria-current=[current] { (name) }
            }
        }
        (pause_form(viewer, queue))
        @if listed.groups.is_empty() {
            p.empty { "No group is in this state" @if !listed.next_page_token.is_empty() { " among those looked at so far" } "." }
        } @else {
            (table(viewer, queue, &listed.groups))
        }
        div.pages {
            @if !page.is_empty() { a.button href={ "?state=" (name(state)) } { "First page" } }
            @if !listed.next_page_token.is_empty() { a.button rel="next" href=(query(&listed.next_page_token)) { "Next page" } }
        }
    }
}

/// Returns the groups as a table.
pub(super) fn table(viewer: &Viewer, queue: &str, groups: &[GroupSummary]) -> Markup {
    let may = viewer.caller.may(Rpc::ResumeGroup, queue);
    let item = format!("/queues/{}/item?key=", format::url(queue));
    html! {
        div.scroll tabindex="0" role="region" aria-label="List of groups" {
            table.cards {
                thead { tr {
                    th scope="col" { "Group" } th scope="col" { "State" } th.number scope="col" { "Leases" }
                    th scope="col" { "First item" } th scope="col" { "Age" } th scope="col" { "Due" } th scope="col" { span.hidden { "Actions" } }
                } }
                tbody { @for group in groups { tr #(format::row_id("group", &group.group)) {
                    @let head = group.head.as_ref();
                    th.long scope="row" { (format::name(&group.group)) @if let Some(pause) = &group.pause { (note(pause)) } }
                    td data-label="state" { span class={ "dot " (name(group.state())) } { (name(group.state())) } }
                    td.number data-label="leases" { (group.leases) }
                    td.long data-label="first item" { @if let Some(head) = head { (key_link(&item, &head.key)) } @else { "–" } }
                    td data-label="age" { (head.and_then(|head| head.age).map_or("–".to_owned(), format::proto_duration)) }
                    td data-label="due" { (format::due(head.and_then(|head| head.due_in))) }
                    td.actions { @if may && group.pause.is_some() && format::can_link(&group.group) {
                        form method="post" action={ (link(queue)) "/resume?group=" (format::url(&group.group)) } {
                            (form_token(viewer))
                            button type="submit" { "Resume" span.hidden { " " (format::name(&group.group)) } }
                        }
                    } }
                } } }
            }
        }
    }
}

/// Returns the form that pauses a group, if the viewer may. A group can be paused that is not on the page.
fn pause_form(viewer: &Viewer, queue: &str) -> Markup {
    html! {
        @if viewer.caller.may(Rpc::PauseGroup, queue) {
            form.filter method="post" action={ (link(queue)) "/pause" } {
                (form_token(viewer))
                label { "Group" input type="text" name="group" required maxlength="1024"; }
                label { "Reason, for your colleagues" input type="text" name="reason" maxlength="1024"; }
                div.row { button type="submit" { "Pause the group" } }
            }
        }
    }
}

/// Returns who paused a group, why, and until when.
fn note(pause: &GroupPause) -> Markup {
    pause_note(&QueuePause {
        actor: pause.actor.clone(),
        reason: pause.reason.clone(),
        pause_time: pause.pause_time,
        until: pause.until,
        ..QueuePause::default()
    })
}

/// Returns the name of a state, or of all states.
fn name(state: GroupState) -> &'static str {
    state.known_word().unwrap_or("all")
}
