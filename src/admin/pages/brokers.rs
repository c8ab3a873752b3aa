//! The content of the page of broker processes.

use axum::Form;
use axum::response::Response;
use lease_broker_proto::{
    BrokerInstance, DrainBrokerRequest, ListBrokersRequest, ListBrokersResponse,
};
use maud::{Markup, html};
use serde::Deserialize;
use tonic::Status;

use super::answer::{Failure, redirect};
use super::format;
use super::layout::form_token;
use super::viewer::Viewer;
use crate::grpc::{AdminApi, Caller, broker_state};
use crate::security::Rpc;

#[derive(Deserialize)]
pub(super) struct Drain {
    form: String,
    id: String,
}

/// Reads the data of the page that the caller may see.
pub(super) async fn read(api: &AdminApi, caller: &Caller) -> Result<ListBrokersResponse, Status> {
    api.list_brokers(caller, ListBrokersRequest {}).await
}

/// Draws the content of the page.
pub(super) fn content(viewer: &Viewer, listed: &ListBrokersResponse) -> Markup {
    html! {
        div.title { h1 { "Brokers" } p.hint { "Those of the last day." } }
        div.scroll tabindex="0" role="region" aria-label="Brokers" {
            table.cards {
                thead { tr {
                    th scope="col" { "Address" } th scope="col" { "State" } th scope="col" { "Version" } th scope="col" { "Started" }
                    th scope="col" { "Last seen" } th scope="col" { "Settings that differ" } th scope="col" { span.hidden { "Actions" } }
                } }
                tbody { @for broker in &listed.brokers { (row(viewer, broker)) } }
            }
        }
    }
}

fn row(viewer: &Viewer, broker: &BrokerInstance) -> Markup {
    let state = broker_state(broker);
    // One that is gone and has not drained was probably killed.
    let was_killed = !broker.is_live && !broker.is_draining;
    let tone = if was_killed { "failed" } else { state };
    let may_drain =
        broker.is_live && !broker.is_draining && viewer.caller.may_somewhere(Rpc::DrainBroker);
    // The data can have been read for another viewer.
    let differing = broker.differing_queues.iter().map(String::as_str);
    let differing: Vec<_> = differing
        .filter(|queue| viewer.caller.may(Rpc::ListBrokers, queue))
        .collect();
    html! {
        tr #{ "broker-" (broker.broker_id) } {
            th scope="row" { (broker.address) @if broker.is_self { span.hint { " (this one)" } } div.hint { code { (broker.broker_id) } } }
            td data-label="state" { strong class={ "badge dot " (tone) } { (state) } }
            td data-label="version" { (broker.version) }
            td data-label="started" { (broker.start_time.as_ref().map_or("–".to_owned(), format::ago)) }
            td data-label="last seen" { (broker.seen_time.as_ref().map_or("–".to_owned(), format::ago)) }
            td.text data-label="settings that differ" { @if differing.is_empty() { "none" } @else { (differing.join(", ")) } }
            td.actions { @if may_drain {
                details.menu {
                    summary { "Stop" span.hidden { " " (broker.address) } }
                    form method="post" action="/brokers/drain" {
                        (form_token(viewer))
                        input type="hidden" name="id" value=(broker.broker_id);
                        p.hint { "It gives no more leases, finishes its calls, and ends." }
                        button.strong type="submit" { "Stop this broker" span.hidden { " " (broker.address) } }
                    }
                }
            } }
        }
    }
}

pub(super) async fn drain(viewer: Viewer, Form(form): Form<Drain>) -> Result<Response, Failure> {
    viewer.check_form(&form.form)?;
    let request = DrainBrokerRequest {
        broker_id: form.id,
        reason: "by the dashboard".to_owned(),
    };
    viewer
        .call(async move |api, caller| api.drain_broker(&caller, request).await)
        .await?;
    Ok(redirect("/brokers"))
}
