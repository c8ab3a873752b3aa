//! The list of items of a queue: a filter, pages, and changes of all that fit.

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::Response;
use lease_broker_proto::{ItemState, ListItemsRequest, ListItemsResponse, ListQueuesRequest};
use maud::{Markup, html};

use super::answer::{Failure, page as page_of};
use super::filter::Filter;
use super::format;
use super::layout::{form_token, frame};
use super::viewer::Viewer;
use crate::security::Rpc;

/// The number of items on a page.
const PAGE: i32 = 100;
/// A filter can fit few items of many. So this many pages are looked through for one page of the browser.
const MAX_PARTS: usize = 10;

pub(super) async fn page(
    viewer: Viewer,
    Path(queue): Path<String>,
    Query(filter): Query<Filter>,
) -> Result<Response, Failure> {
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
    Ok(page_of(
        StatusCode::OK,
        frame(
            &viewer,
            &format!("{} items of {queue}", format::state(state)),
            None,
            &content,
        ),
    ))
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
    html! {
        div.title {
            h1 { a href=(link) { (queue) } " · " (format::state(state)) " items" }
        }
        (filter_form(filter, columns))
        @if listed.items.is_empty() {
            p.empty {
                "No item fits" @if !listed.next_page_token.is_empty() { " among the " (format::count(listed.examined, false)) " rows looked at so far" } "."
            }
        } @else {
            (table(&link, listed))
            p.hint {
                (listed.items.len()) " shown, " (format::count(listed.examined, false)) " rows looked at."
                @if !listed.next_page_token.is_empty() { " More may follow." }
            }
        }
        div.pages {
            @if !filter.page.is_empty() { a href={ "?" (filter.query("")) } { "First page" } }
            @if !listed.next_page_token.is_empty() { a rel="next" href={ "?" (filter.query(&listed.next_page_token)) } { "Next page" } }
        }
        @if viewer.caller.may(Rpc::StartOperation, queue) { (change_forms(viewer, queue, filter)) }
    }
}

fn filter_form(filter: &Filter, columns: &[String]) -> Markup {
    html! {
        form.filter method="get" {
            label { "State"
                select name="state" {
                    @for (state, name) in format::STATES { option value=(name) selected[state == filter.state()] { (name) } }
                }
            }
            label { "Worker" input type="text" name="owner" value=(filter.owner) maxlength="128"; }
            label { "Error contains" input type="text" name="error" value=(filter.error) maxlength="256"; }
            label { "In the state since" input type="text" name="since" value=(filter.since) placeholder="1h or 2027-01-31T02:00:00Z"; }
            label { "until" input type="text" name="before" value=(filter.before) placeholder="10m"; }
            label { "Attempts, at least" input type="number" name="attempts" min="0" value=(filter.attempts); }
            @if !columns.is_empty() {
                label { "Column"
                    select name="column" {
                        option value="" { "any" }
                        @for column in columns { option value=(column) selected[*column == filter.column] { (column) } }
                    }
                }
                label { "equals" input type="text" name="value" value=(filter.value); }
            }
            button type="submit" { "Filter" }
        }
    }
}

fn table(link: &str, listed: &ListItemsResponse) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Items" {
            table {
                thead { tr {
                    th scope="col" { "Key" } th scope="col" { "Worker" } th scope="col" { "Since" } th scope="col" { "Due" }
                    th.number scope="col" { "Attempts" } th scope="col" { "Last error" }
                } }
                tbody { @for item in &listed.items { tr {
                    th scope="row" { a href={ (link) "/item?key=" (format::url(&item.key)) } { (item.key) } }
                    td { (item.owner) }
                    td { @if let Some(time) = &item.state_time { time datetime=(format::moment(time)) title=(format::moment(time)) { (format::ago(time)) } } @else { "–" } }
                    td { (item.due_time.as_ref().map_or("–".to_owned(), format::ago)) }
                    td.number { (item.attempt) }
                    td.text { (item.error) }
                } } }
            }
        }
    }
}

/// Returns the forms that change all items that fit the filter. The next page shows their number and asks.
fn change_forms(viewer: &Viewer, queue: &str, filter: &Filter) -> Markup {
    let action = format!("/queues/{}/confirm", format::url(queue));
    let button = |change: &str, text: &str| {
        html! {
            form method="post" action=(action) {
                (form_token(viewer))
                (filter.hidden_fields())
                input type="hidden" name="change" value=(change);
                button type="submit" { (text) }
            }
        }
    };
    html! {
        section.changes aria-labelledby="changes" {
            h2 #changes { "All items that fit" }
            div.row {
                @match filter.state() {
                    ItemState::Dead => {
                        (button("redrive", "Redrive …"))
                        @if viewer.caller.may_purge(queue) { (button("purge", "Delete …")) }
                    }
                    ItemState::Leased => { (button("cancel", "Take the leases away …")) }
                    ItemState::Completed if viewer.caller.may_purge(queue) => { (button("purge", "Delete …")) }
                    _ => { p.hint { "Nothing to change in this state." } }
                }
            }
        }
    }
}
