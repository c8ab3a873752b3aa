//! The page that asks before leases are taken away from their workers, and the form on it.
//!
//! A form has each lease with its fencing token. So only the leases that the viewer has seen are taken away, and not those that other
//! workers got since.

use std::borrow::Cow;
use std::fmt::Write as _;

use axum::Form;
use axum::extract::Path;
use axum::response::Response;
use lease_broker_proto::{
    CancelLeasesRequest, CancelResult, Cancellation, ItemFilter, ItemState, ItemSummary,
    ListItemsRequest, Outcome,
};
use maud::{Markup, html};
use tonic::Status;

use super::answer::{Failure, redirect};
use super::filter::Fields;
use super::format;
use super::layout::{Section, form_token, framed};
use super::viewer::Viewer;

/// The field of a form that has a lease, as a query: browsers change the line ends in the fields of forms, and a key may have some.
const FIELD: &str = "lease";
/// The text about leases that are not those that the viewer has seen.
const LOST: &str =
    "A lease that has ended, or whose item another worker has got since, is not taken away.";
/// The maximum number of leases in a form, which is that of items on a page.
const PAGE: usize = 100;
/// The maximum number of leases that the question names one by one.
const NAMED: usize = 10;

/// Returns the path of the question about leases of a queue.
pub(super) fn question(queue: &str) -> String {
    format!("/queues/{}/leases/confirm", format::url(queue))
}

/// Returns the field of a form that has the lease on an item.
pub(super) fn hidden_field(item: &ItemSummary) -> Markup {
    html! { input type="hidden" name=(FIELD) value=(query(item)); }
}

/// Returns the box that adds the lease on an item to a form.
pub(super) fn mark(item: &ItemSummary, form: &str) -> Markup {
    html! {
        input type="checkbox" name=(FIELD) value=(query(item)) form=(form) aria-label={ "Mark " (format::name(&item.key)) };
    }
}

fn query(item: &ItemSummary) -> String {
    format!(
        "key={}&token={}",
        format::url(&item.key),
        item.fencing_token
    )
}

/// The fields of a form about leases.
struct Sent {
    leases: Vec<Cancellation>,
    reason: String,
}

impl Sent {
    /// Reads the fields of a form.
    ///
    /// # Errors
    /// The form is not one of this viewer's pages, or it has no lease.
    fn of(viewer: &Viewer, fields: &Fields) -> Result<Self, Failure> {
        let first = |wanted: &str| {
            let found = fields.iter().find(|(name, _)| name == wanted);
            found.map_or("", |(_, value)| &**value)
        };
        viewer.check_form(first("form"))?;
        let marked = fields.iter().filter(|(name, _)| name == FIELD);
        let leases: Option<Vec<_>> = marked.map(|(_, value)| lease(value)).collect();
        let leases = leases.ok_or(Failure::Forbidden("The form is not one of these pages."))?;
        if !(1..=PAGE).contains(&leases.len()) {
            let problem =
                "mark at least one and at most 100 items in the list, or change all items that fit";
            return Err(Status::invalid_argument(problem).into());
        }
        Ok(Self {
            leases,
            reason: first("reason").to_owned(),
        })
    }
}

/// Reads a lease from its field. `None`: it has no fencing token.
fn lease(field: &str) -> Option<Cancellation> {
    let mut lease = Cancellation::default();
    for (name, value) in form_urlencoded::parse(field.as_bytes()) {
        match &*name {
            "key" => lease.key = value.into_owned(),
            "token" => lease.fencing_token = value.parse().ok()?,
            _ => (),
        }
    }
    (lease.fencing_token > 0).then_some(lease)
}

pub(super) async fn confirm(
    viewer: Viewer,
    Path(queue): Path<String>,
    Form(fields): Form<Fields>,
) -> Result<Response, Failure> {
    let sent = Sent::of(&viewer, &fields)?;
    let keys = sent.leases.iter().map(|lease| lease.key.clone());
    let request = ListItemsRequest {
        queue: queue.clone(),
        state: ItemState::Leased.into(),
        filter: Some(ItemFilter {
            keys: keys.collect(),
            ..ItemFilter::default()
        }),
        ..ListItemsRequest::default()
    };
    let mut held = viewer
        .call(async move |api, caller| api.list_items(&caller, request).await)
        .await?
        .items;
    held.retain(|item| {
        let mut leases = sent.leases.iter();
        leases.any(|lease| lease.key == item.key && lease.fencing_token == item.fencing_token)
    });
    if held.is_empty() {
        return Err(Status::failed_precondition(LOST).into());
    }
    let question = match &*held {
        [item] => format!("Take this lease away from {}?", worker(item)),
        _ => "Take these leases away from their workers?".to_owned(),
    };
    let content = html! {
        div.narrow.panel {
            h1 { (question) }
            p.big { (format::number(held.len(), "item", "items")) " of " strong { (queue) } }
            p.hint { (sentence(&held)) }
            @if held.len() < sent.leases.len() { p.hint { (LOST) } }
            form method="post" action={ "/queues/" (format::url(&queue)) "/leases/cancel" } {
                (form_token(&viewer))
                @for item in &held { (hidden_field(item)) }
                label { "Reason, for the workers and your colleagues" input type="text" name="reason" maxlength="1024"; }
                div.row { button.strong type="submit" { "Take away " (held.len()) } a href=(back(&queue, &sent.leases)) { "Back" } }
            }
        }
    };
    Ok(framed(
        &viewer,
        (&question, Section::Queues),
        None,
        &content,
    ))
}

/// Returns the worker that holds an item. Another program can have written a lease without one.
fn worker(item: &ItemSummary) -> Cow<'_, str> {
    if item.owner.is_empty() {
        "its worker".into()
    } else {
        format::text(&item.owner)
    }
}

/// Returns the leases as a sentence.
fn sentence(leases: &[ItemSummary]) -> String {
    let one = |item: &ItemSummary| format!("key {} of {}", format::name(&item.key), worker(item));
    let mut parts: Vec<String> = leases.iter().take(NAMED).map(one).collect();
    if leases.len() > NAMED {
        parts.push(format!("and {} more", leases.len() - NAMED));
    }
    parts.join(", ")
}

pub(super) async fn cancel(
    viewer: Viewer,
    Path(queue): Path<String>,
    Form(fields): Form<Fields>,
) -> Result<Response, Failure> {
    let sent = Sent::of(&viewer, &fields)?;
    let request = CancelLeasesRequest {
        queue: queue.clone(),
        cancellations: sent.leases.clone(),
        reason: sent.reason,
        ..CancelLeasesRequest::default()
    };
    let results = viewer
        .call(async move |api, caller| api.cancel_leases(&caller, request).await)
        .await?
        .results;
    match problem(&sent.leases, &results) {
        None => Ok(redirect(&back(&queue, &sent.leases))),
        Some(problem) => Err(Status::failed_precondition(problem).into()),
    }
}

/// Returns which leases were not taken away, and why. `None`: all were.
fn problem(leases: &[Cancellation], results: &[CancelResult]) -> Option<String> {
    let of = |outcome| {
        results
            .iter()
            .filter(move |result| result.outcome() == outcome)
    };
    let taken = of(Outcome::Applied).count();
    if taken == leases.len() {
        return None;
    }
    let mut text = format!(
        "{taken} of {} taken away.",
        format::number(leases.len(), "lease", "leases")
    );
    if taken + of(Outcome::Refused).count() < leases.len() {
        text.push(' ');
        text.push_str(LOST);
    }
    let refused = leases.iter().zip(results);
    for (lease, refusal) in
        refused.filter_map(|(lease, result)| Some((lease, result.refusal.as_ref()?)))
    {
        // Writing to a text does not fail.
        let _ = write!(
            text,
            " The key {} was refused: {}.",
            format::name(&lease.key),
            format::text(&refusal.message)
        );
    }
    Some(text)
}

/// Returns the path of the page that shows these leases.
fn back(queue: &str, leases: &[Cancellation]) -> String {
    let queue = format::url(queue);
    match leases {
        [lease] => format!("/queues/{queue}/item?key={}", format::url(&lease.key)),
        _ => format!("/queues/{queue}/items?state=leased"),
    }
}
