//! The list of items of a queue: a filter, pages, and changes of all that fit.

use axum::extract::{Path, Query};
use axum::response::Response;
use lease_broker_proto::{
    ItemState, ItemSummary, ListItemsRequest, ListItemsResponse, ListQueuesRequest,
};
use maud::{Markup, html};

use super::answer::{Failure, redirect};
use super::filter::{Fields, Filter};
use super::layout::{Section, form_token, framed, key_link};
use super::states::state_links;
use super::viewer::Viewer;
use super::{format, leases};
use crate::grpc::Words as _;
use crate::security::Rpc;

/// The number of items on a page.
const PAGE: i32 = 100;
/// A filter can fit few items of many. So this many pages are looked through for one page of the browser.
const MAX_PARTS: usize = 10;

pub(super) async fn page(
    viewer: Viewer,
    Path(queue): Path<String>,
    Query(fields): Query<Fields>,
) -> Result<Response, Failure> {
    let sent = Filter::of(&fields);
    let filter = sent.clone().with_moments();
    if filter != sent {
        let link = format!("/queues/{}/items?{}", format::url(&queue), filter.query(""));
        return Ok(redirect(&link));
    }
    let state = filter.state();
    let request = ListItemsRequest {
        queue: queue.clone(),
        state: state.into(),
        filter: Some(filter.to_proto()?),
        page_size: PAGE,
        page_token: filter.page.clone(),
        newest_first: state == ItemState::Dead,
    };
    let names = ListQueuesRequest {
        queues: vec![queue.clone()],
        ..ListQueuesRequest::default()
    };
    let (listed, columns) = viewer
        .call(async move |api, caller| {
            let mut queues = api.list_queues(&caller, names).await?.queues;
            let columns = queues.pop().unwrap_or_default().filterable_columns;
            let mut listed = api.list_items(&caller, request.clone()).await?;
            let mut parts = 1;
            while listed.items.is_empty() && !listed.next_page_token.is_empty() && parts < MAX_PARTS
            {
                parts += 1;
                let next = ListItemsRequest {
                    page_token: listed.next_page_token.clone(),
                    ..request.clone()
                };
                let examined = listed.examined;
                listed = api.list_items(&caller, next).await?;
                listed.examined += examined;
            }
            Ok((listed, columns))
        })
        .await?;
    let content = content(&viewer, &queue, &filter, &listed, &columns);
    let title = format!("{} items of {queue}", state.word());
    Ok(framed(&viewer, (&title, Section::Queues), None, &content))
}

fn content(
    viewer: &Viewer,
    queue: &str,
    filter: &Filter,
    listed: &ListItemsResponse,
    columns: &[String],
) -> Markup {
    let link = format!("/queues/{}", format::url(queue));
    let state = filter.state();
    let may_change = viewer.caller.may(Rpc::StartOperation, queue);
    html! {
        div.title { h1 { a href=(link) { (queue) } span.sep { " / " } (state.word()) " items" } }
        (state_links(&link, state))
        (filter_form(filter, columns))
        @if listed.items.is_empty() {
            p.empty {
                "No item fits" @if !listed.next_page_token.is_empty() { " among the " (format::count(listed.examined, false)) " rows looked at so far" } "."
            }
        } @else {
            @if may_change { (change_forms(viewer, queue, filter)) }
            (table(&link, listed, may_change && !changes(viewer, queue, state).is_empty()))
        }
        div.pages {
            @if !listed.items.is_empty() {
                p.hint role="status" {
                    (format::number(listed.items.len(), "item", "items")) " shown, " (format::count(listed.examined, false)) " rows looked at."
                    @if !listed.next_page_token.is_empty() { " More may follow." }
                }
            }
            @if !filter.page.is_empty() { a.button href={ "?" (filter.query("")) } { "First page" } }
            @if !listed.next_page_token.is_empty() { a.button rel="next" href={ "?" (filter.query(&listed.next_page_token)) } { "Next page" } }
        }
    }
}

fn filter_form(filter: &Filter, columns: &[String]) -> Markup {
    html! {
        form.filter method="get" {
            input type="hidden" name="state" value=(filter.state().word());
            (text_field(filter, "Worker", "owner", &filter.owner, Some(128)))
            (text_field(filter, "Error contains", "error", &filter.error, Some(256)))
            label { "In the state since" input type="text" name="since" value=(filter.since) placeholder="1h" title="An age such as 1h, or a time such as 2027-01-31T02:00:00Z"; }
            label { "In the state until" input type="text" name="before" value=(filter.before) placeholder="10m" title="An age such as 10m, or a time such as 2027-01-31T02:00:00Z"; }
            label { "Attempts, at least" input type="number" name="attempts" min="0" value=(filter.attempts); }
            @if !columns.is_empty() {
                label { "Column"
                    select name="column" {
                        option value="" { "any" }
                        @for column in columns { option value=(column) selected[*column == filter.column] { (column) } }
                    }
                }
                (text_field(filter, "equals", "value", &filter.value, None))
            }
            div.row {
                button type="submit" { "Filter" }
                @if filter.selects() { a href={ "?state=" (filter.state().word()) } { "Show all" } }
            }
        }
    }
}

/// Returns the field of a text. Browsers remove the line ends from such a field. A text that has some, as the errors of many programs have,
/// is only shown, and the form has it as a query.
fn text_field(filter: &Filter, label: &str, name: &str, value: &str, max: Option<u16>) -> Markup {
    html! {
        @if value.contains(['\n', '\r']) {
            div.field {
                (label)
                span.text { (format::text(value)) }
                a href={ "?" (filter.with(name, "").query("")) } { "Remove" span.hidden { " " (label) } }
                (Filter::default().with(name, value).hidden_field())
            }
        } @else {
            label { (label) input type="text" name=(name) value=(value) maxlength=[max]; }
        }
    }
}

/// Returns the items as a table. `can_mark`: each row has a box, which belongs to the form of the changes.
fn table(link: &str, listed: &ListItemsResponse, can_mark: bool) -> Markup {
    let path = format!("{link}/item?key=");
    html! {
        div.scroll tabindex="0" role="region" aria-label="Items" {
            table.cards {
                thead { tr {
                    @if can_mark { th scope="col" { span.hidden { "Mark" } } }
                    th scope="col" { "Key" } th scope="col" { "Worker" } th scope="col" { "Since" } th scope="col" { "Due" }
                    th.number scope="col" { "Attempts" } th scope="col" { "Last error" }
                } }
                tbody { @for item in &listed.items { tr {
                    @if can_mark { td.mark { @if format::can_link(&item.key) { (mark(item)) } } }
                    th scope="row" { (key_link(&path, &item.key)) }
                    td.long data-label="worker" { (format::text(&item.owner)) }
                    td data-label="since" { @if let Some(time) = &item.state_time { time datetime=(format::moment(time)) title=(format::moment(time)) { (format::age(item.age)) } } @else { "–" } }
                    td data-label="due" { (format::due(item.due_in)) }
                    td.number data-label="attempts" { (item.attempt) }
                    td.text data-label="error" { (format::text(&item.error)) }
                } } }
            }
        }
    }
}

/// Returns the box that adds an item to the form of the marked items.
fn mark(item: &ItemSummary) -> Markup {
    match item.state() {
        ItemState::Leased => leases::mark(item, "marked"),
        _ => Filter::key_box(&item.key, "marked"),
    }
}

/// Returns the changes that a viewer can make to items in a state, each with the text of its button.
fn changes(viewer: &Viewer, queue: &str, state: ItemState) -> Vec<(&'static str, &'static str)> {
    let may_purge = viewer.caller.may_purge(queue);
    let all = [
        ("redrive", "Redrive", state == ItemState::Dead),
        ("cancel", "Take the leases away", state == ItemState::Leased),
        (
            "purge",
            "Delete",
            may_purge && matches!(state, ItemState::Dead | ItemState::Completed),
        ),
    ];
    let possible = all.into_iter().filter(|(_, _, is_possible)| *is_possible);
    possible.map(|(change, text, _)| (change, text)).collect()
}

/// Returns the forms that change the marked items, or all items that fit the filter. The next page shows their number and asks.
fn change_forms(viewer: &Viewer, queue: &str, filter: &Filter) -> Markup {
    let action = format!("/queues/{}/confirm", format::url(queue));
    let changes = changes(viewer, queue, filter.state());
    let state = filter.state().word();
    let marked = match filter.state() {
        ItemState::Leased => leases::question(queue),
        _ => action.clone(),
    };
    html! {
        @if !changes.is_empty() {
            div.changes {
                form #marked method="post" action=(marked) {
                    (form_token(viewer))
                    input type="hidden" name="state" value=(state);
                    input type="hidden" name="marked" value="1";
                    span { "Marked items:" }
                    @for (change, text) in &changes { button type="submit" name="change" value=(change) { (text) " …" } }
                }
                form method="post" action=(action) {
                    (form_token(viewer))
                    (filter.hidden_field())
                    span { @if filter.selects() { "All that fit:" } @else { "All " (state) " items:" } }
                    @for (change, text) in &changes { button type="submit" name="change" value=(change) { (text) " …" } }
                }
            }
        }
    }
}
