//! The page of operations on many items.

use axum::Form;
use axum::http::StatusCode;
use axum::response::Response;
use lease_broker_proto::{
    CancelOperationRequest, ListOperationsRequest, Operation, OperationState, operation,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::answer::{Failure, page as page_of, redirect};
use super::format;
use super::layout::{form_token, frame};
use super::viewer::Viewer;
use crate::security::Rpc;

#[derive(Deserialize)]
pub(super) struct Cancel {
    form: String,
    id: String,
}

pub(super) async fn page(viewer: Viewer) -> Result<Response, Failure> {
    let content = content(&viewer).await?;
    Ok(page_of(
        StatusCode::OK,
        frame(&viewer, "Operations", true, &content),
    ))
}

/// Returns the content of the page, which the script also loads.
pub(super) async fn content(viewer: &Viewer) -> Result<Markup, Failure> {
    let request = ListOperationsRequest::default();
    let listed = viewer
        .call(async move |api, caller| api.list_operations(&caller, request).await)
        .await?;
    Ok(html! {
        div.title { h1 { "Operations" } p.hint { "The last 100. They are kept for ten days." } }
        @if listed.operations.is_empty() { p.empty { "No operation was started yet." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Operations" {
                table {
                    thead { tr {
                        th scope="col" { "Operation" } th scope="col" { "Queue" } th scope="col" { "State" }
                        th.number scope="col" { "Changed" } th.number scope="col" { "Looked at" } th.number scope="col" { "Refused" }
                        th scope="col" { "Started" } th scope="col" { "Reason" } th scope="col" { "Actions" }
                    } }
                    tbody { @for operation in &listed.operations { (row(viewer, operation)) } }
                }
            }
        }
    })
}

fn row(viewer: &Viewer, operation: &Operation) -> Markup {
    let state = match operation.state() {
        OperationState::Running => "running",
        OperationState::Done => "done",
        OperationState::Cancelled => "cancelled",
        OperationState::Failed => "failed",
        OperationState::Unspecified => "unknown",
    };
    let may_cancel = operation.state() == OperationState::Running
        && viewer.caller.may(Rpc::CancelOperation, &operation.queue);
    html! {
        tr {
            th scope="row" { (kind(operation)) div.hint { code { (operation.operation_id) } } }
            td { a href={ "/queues/" (format::url(&operation.queue)) } { (operation.queue) } }
            td { strong.badge { (state) } @if !operation.error.is_empty() { div.note { (operation.error) } } }
            td.number { (format::count(operation.changed, false)) }
            td.number { (format::count(operation.examined, false)) }
            td.number { (format::count(operation.refused, false)) }
            td { (operation.create_time.as_ref().map_or("–".to_owned(), format::ago))
                @if !operation.actor.is_empty() { div.hint { "by " (operation.actor) } } }
            td.text { (operation.reason) }
            td { @if may_cancel {
                form method="post" action="/operations/cancel" {
                    (form_token(viewer))
                    input type="hidden" name="id" value=(operation.operation_id);
                    button type="submit" { "Stop" }
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
