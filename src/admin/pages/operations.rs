//! The content of the page of operations on many items.

use axum::Form;
use axum::response::Response;
use lease_broker_proto::{
    CancelOperationRequest, ListOperationsRequest, ListOperationsResponse, Operation,
    OperationState, operation,
};
use maud::{Markup, html};
use serde::Deserialize;
use tonic::Status;

use super::answer::{Failure, redirect};
use super::format;
use super::layout::form_token;
use super::viewer::Viewer;
use crate::grpc::{AdminApi, Caller, Words as _};
use crate::security::Rpc;

/// The number of operations that are shown, and of those that are looked at. A viewer does not see the operations on all queues.
const SHOWN: usize = 100;
const LOOKED_AT: i32 = 1_000;

#[derive(Deserialize)]
pub(super) struct Cancel {
    form: String,
    id: String,
}

/// Reads the data of the page that the caller may see.
pub(super) async fn read(
    api: &AdminApi,
    caller: &Caller,
) -> Result<ListOperationsResponse, Status> {
    let request = ListOperationsRequest {
        page_size: LOOKED_AT,
        ..ListOperationsRequest::default()
    };
    api.list_operations(caller, request).await
}

/// Draws the content of the page, without the operations on queues that the viewer may not see.
pub(super) fn content(viewer: &Viewer, listed: &ListOperationsResponse) -> Markup {
    let operations = listed.operations.iter();
    let visible = operations.filter(|one| viewer.caller.may(Rpc::ListOperations, &one.queue));
    let operations: Vec<&Operation> = visible.take(SHOWN).collect();
    html! {
        div.title { h1 { "Operations" } p.hint { "The last 100. They are kept for ten days." } }
        @if operations.is_empty() { p.empty { "No operation was started yet. Redriving, cancelling and deleting items starts one." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Operations" {
                table.cards {
                    thead { tr {
                        th scope="col" { "Operation" } th scope="col" { "Queue" } th scope="col" { "State" }
                        th.number scope="col" { "Changed" } th.number scope="col" { "Looked at" } th.number scope="col" { "Refused" }
                        th scope="col" { "Started" } th scope="col" { "Reason" } th scope="col" { span.hidden { "Actions" } }
                    } }
                    tbody { @for operation in &operations { (row(viewer, operation)) } }
                }
            }
        }
    }
}

fn row(viewer: &Viewer, operation: &Operation) -> Markup {
    let state = operation.state().word();
    let may_cancel = operation.state() == OperationState::Running
        && viewer.caller.may(Rpc::CancelOperation, &operation.queue);
    html! {
        tr #{ "operation-" (operation.operation_id) } {
            th scope="row" { (kind(operation)) div.hint { code { (operation.operation_id) } } }
            td data-label="queue" { a href={ "/queues/" (format::url(&operation.queue)) } { (operation.queue) } }
            td data-label="state" { strong class={ "badge dot " (state) } { (state) } @if !operation.error.is_empty() { div.note { (format::text(&operation.error)) } } }
            td.number data-label="changed" { (format::count(operation.changed, false)) }
            td.number data-label="looked at" { (format::count(operation.examined, false)) }
            td.number data-label="refused" { (format::count(operation.refused, false)) }
            td data-label="started" { (operation.create_time.as_ref().map_or("–".to_owned(), format::ago))
                @if !operation.actor.is_empty() { div.hint { "by " (format::text(&operation.actor)) } } }
            td.text data-label="reason" { (format::text(&operation.reason)) }
            td.actions { @if may_cancel {
                form method="post" action="/operations/cancel" {
                    (form_token(viewer))
                    input type="hidden" name="id" value=(operation.operation_id);
                    button type="submit" { "Stop" span.hidden { " " (kind(operation)) " of " (operation.queue) } }
                }
            } }
        }
    }
}

/// Returns the name of an operation's action.
pub(super) fn kind(operation: &Operation) -> &'static str {
    match &operation.action {
        Some(operation::Action::Redrive(_)) => "redrive",
        Some(operation::Action::CancelLeases(_)) => "cancel leases",
        Some(operation::Action::Purge(_)) => "delete",
        None => "operation",
    }
}

pub(super) async fn cancel(viewer: Viewer, Form(form): Form<Cancel>) -> Result<Response, Failure> {
    viewer.check_form(&form.form)?;
    let request = CancelOperationRequest {
        operation_id: form.id,
        reason: String::new(),
    };
    viewer
        .call(async move |api, caller| api.cancel_operation(&caller, request).await)
        .await?;
    Ok(redirect("/operations"))
}
