//! The content of the page of one queue: charts, the oldest leases, the last failures by their error, and the settings.

use std::collections::BTreeMap;

use lease_broker_proto::{
    ItemState, ItemSummary, ListGroupsRequest, ListGroupsResponse, ListItemsRequest,
    ListQueuesRequest, QueueSummary,
};
use lease_broker_store::Activity;
use maud::{Markup, html};
use tonic::{Code, Status};

use super::chart::{Line, Sample, chart};
use super::filter::Filter;
use super::layout::{form_token, key_link};
use super::queues::{pause_form, pause_note};
use super::viewer::Viewer;
use super::{format, groups};
use crate::broker::ActivitySample;
use crate::grpc::{AdminApi, Caller, Words as _};
use crate::security::Rpc;

/// The number of leases that are shown, and of dead items whose errors are grouped.
const LEASES: i32 = 10;
const FAILURES: i32 = 200;
/// The number of groups that are shown.
const GROUPS: i32 = 10;

/// The data of the page of a queue.
pub(super) struct QueueContent {
    queue: QueueSummary,
    /// `None`: the table cannot be read now.
    lists: Option<Lists>,
}

/// The lists of the page of a queue.
struct Lists {
    /// The leases that end first.
    leases: Vec<ItemSummary>,
    /// The items that died last.
    dead: Vec<ItemSummary>,
    /// The first groups. `None`: the queue has no groups.
    groups: Option<ListGroupsResponse>,
}

/// Reads the data of this queue's page that the caller may see.
pub(super) async fn read(
    api: &AdminApi,
    caller: &Caller,
    name: &str,
) -> Result<QueueContent, Status> {
    let list = async |state: ItemState, page_size, newest_first| {
        let request = ListItemsRequest {
            queue: name.to_owned(),
            state: state.into(),
            page_size,
            newest_first,
            ..ListItemsRequest::default()
        };
        api.list_items(caller, request).await
    };
    let request = ListQueuesRequest {
        queues: vec![name.to_owned()],
        ..ListQueuesRequest::default()
    };
    let mut queues = api.list_queues(caller, request).await?.queues;
    let queue = queues.pop().unwrap_or_default();
    if !queue.problem.is_empty() {
        return Ok(QueueContent { queue, lists: None });
    }
    let groups = ListGroupsRequest {
        queue: name.to_owned(),
        page_size: GROUPS,
        ..ListGroupsRequest::default()
    };
    let groups = match api.list_groups(caller, groups).await {
        // The queue has no groups.
        Err(status) if status.code() == Code::InvalidArgument => None,
        listed => Some(listed?),
    };
    let lists = Some(Lists {
        leases: list(ItemState::Leased, LEASES, false).await?.items,
        dead: list(ItemState::Dead, FAILURES, true).await?.items,
        groups,
    });
    Ok(QueueContent { queue, lists })
}

/// Draws the content of the page.
pub(super) fn content(viewer: &Viewer, content: &QueueContent) -> Markup {
    let QueueContent { queue, lists } = content;
    let name = &queue.queue;
    let history = viewer.state().broker.get();
    let history = history.map(|broker| broker.activity_history().of(name));
    let link = format!("/queues/{}", format::url(name));
    html! {
        div.title {
            h1 { (name) }
            p.hint { "table " code { (queue.table) } }
            div.actions { (pause_form(viewer, name, queue.pause.is_some())) }
        }
        @if let Some(pause) = &queue.pause { div.banner.warn { (pause_note(pause)) } }
        @if !queue.problem.is_empty() { div.banner.warn { (format::text(&queue.problem)) } }
        (counts(queue, &link))
        (charts(&history.unwrap_or_default()))
        @if let Some(lists) = lists { (self::lists(viewer, name, lists, &link)) }
        section {
            details.settings { summary { "Settings in effect" } pre tabindex="0" { (pretty(&queue.settings_json)) } }
        }
    }
}

fn lists(viewer: &Viewer, name: &str, lists: &Lists, link: &str) -> Markup {
    html! {
        section aria-labelledby="leases" {
            h2 #leases { "Leases that end first" }
            (lease_table(&lists.leases, link))
        }
        @if let Some(listed) = &lists.groups {
            section aria-labelledby="groups" {
                h2 #groups { a href=(groups::link(name)) { "Groups" } }
                @if listed.groups.is_empty() { p.empty { "No group has an item that waits." } } @else { (groups::table(viewer, name, &listed.groups)) }
                @if !listed.next_page_token.is_empty() { p.hint { "The first " (listed.groups.len()) ". " a href=(groups::link(name)) { "Show all" } } }
            }
        }
        section aria-labelledby="failures" {
            h2 #failures { "Dead items by error" }
            (failure_table(viewer, name, &lists.dead, link))
        }
    }
}

fn counts(queue: &QueueSummary, link: &str) -> Markup {
    html! {
        ul.counts {
            @for count in &queue.counts {
                @let state = count.state().word();
                @let tone = if count.count == 0 { "zero" } else { state };
                li { a class=(tone) href={ (link) "/items?state=" (state) } {
                    span.big { (format::count(count.count, count.at_least)) } " " span class={ "dot " (state) } { (state) }
                } }
            }
            li { div.zero[queue.waiting_claims == 0] { span.big { (format::count(queue.waiting_claims, false)) } " waiting claims" } }
        }
    }
}

fn charts(history: &[ActivitySample]) -> Markup {
    let line = |name, class, value: fn(&Activity) -> f64| Line {
        name,
        class,
        samples: history
            .iter()
            .map(|taken| Sample {
                age: taken.age,
                value: value(&taken.activity),
            })
            .collect(),
    };
    html! {
        div.charts {
            (chart("Throughput", "per second", &[
                line("added", "one", |sample| sample.enqueued),
                line("claimed", "two", |sample| sample.claimed),
                line("completed", "three", |sample| sample.completed),
            ]))
            (chart("Failures by cause", "per second", &[
                line("failed", "four", |sample| sample.failed),
                line("expired", "five", |sample| sample.expired),
                line("released", "two", |sample| sample.released),
            ]))
            (chart("Wait of claimed items", "seconds", &[line("mean", "one", mean_wait)]))
        }
    }
}

/// Returns the mean time in seconds for which items of a sample were ready before they were claimed.
fn mean_wait(sample: &Activity) -> f64 {
    if sample.claimed > 0.0 {
        sample.waited / sample.claimed / 1_000.0
    } else {
        0.0
    }
}

fn lease_table(leases: &[ItemSummary], link: &str) -> Markup {
    html! {
        @if leases.is_empty() { p.empty { "No item is leased." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Leases" {
                table.cards {
                    thead { tr {
                        th scope="col" { "Key" } th scope="col" { "Worker" } th scope="col" { "Claimed" }
                        th scope="col" { "Ends" } th.number scope="col" { "Attempt" }
                    } }
                    tbody { @for item in leases { tr #(format::row_id("lease", &item.key)) {
                        th scope="row" { (key_link(&format!("{link}/item?key="), &item.key)) }
                        td.long data-label="worker" { (format::text(&item.owner)) }
                        td data-label="claimed" { (format::age(item.age)) }
                        td data-label="ends" { (format::due(item.due_in)) }
                        td.number data-label="attempt" { (item.attempt) }
                    } } }
                }
            }
        }
    }
}

/// Groups the dead items that died last by the first 80 characters of their errors.
fn failure_table(viewer: &Viewer, queue: &str, dead: &[ItemSummary], link: &str) -> Markup {
    let mut groups: BTreeMap<String, Vec<&ItemSummary>> = BTreeMap::new();
    for item in dead {
        let error: String = item.error.chars().take(80).collect();
        groups.entry(error).or_default().push(item);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    let is_cut = dead.len() == FAILURES.unsigned_abs() as usize;
    let may_redrive = viewer.caller.may(Rpc::StartOperation, queue);
    html! {
        @if dead.is_empty() { p.empty { "No item is dead." } } @else {
            @if is_cut { p.hint { "Of the " (dead.len()) " items that died last." } }
            div.scroll tabindex="0" role="region" aria-label="Errors" {
                table.cards {
                    thead { tr { th scope="col" { "Error" } th.number scope="col" { "Items" } th scope="col" { "Last" } th scope="col" { span.hidden { "Actions" } } } }
                    tbody { @for (error, items) in groups.iter().take(20) { tr #(format::row_id("error", error)) {
                        th.text scope="row" {
                            @if error.is_empty() { em { "no text" } } @else {
                                a href={ (link) "/items?state=dead&error=" (format::url(error)) } { (format::text(error)) }
                            }
                        }
                        td.number data-label="items" { (items.len()) @if is_cut { "+" } }
                        td data-label="last" { (format::age(items[0].age)) }
                        td.actions { @if may_redrive && !error.is_empty() { (redrive_form(viewer, error, link)) } }
                    } } }
                }
            }
        }
    }
}

/// Returns the form that redrives the dead items with an error. The next page shows their number and asks.
fn redrive_form(viewer: &Viewer, error: &str, link: &str) -> Markup {
    let filter = Filter {
        state: "dead".to_owned(),
        error: error.to_owned(),
        ..Filter::default()
    };
    html! {
        form method="post" action={ (link) "/confirm" } {
            (form_token(viewer))
            (filter.hidden_field())
            button type="submit" name="change" value="redrive" { "Redrive …" span.hidden { " items with " (format::text(error)) } }
        }
    }
}

/// Returns a JSON text on several lines.
fn pretty(json: &str) -> String {
    let value: Result<serde_json::Value, _> = serde_json::from_str(json);
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value));
    pretty.unwrap_or_else(|_| json.to_owned())
}
