//! The page that shows how many items a change concerns, and asks. The form on it starts the operation.

use axum::Form;
use axum::extract::Path;
use axum::response::Response;
use lease_broker_proto::start_operation_request::Action;
use lease_broker_proto::{CancelHeld, Purge, Redrive, StartOperationRequest};
use maud::html;
use tonic::Status;

use super::answer::{Failure, redirect};
use super::filter::{Fields, Filter};
use super::format;
use super::layout::{Section, form_token, framed};
use super::viewer::Viewer;

/// A change of the items that fit a filter.
struct Change {
    form: String,
    kind: String,
    reason: String,
    rate: String,
    request_id: String,
    /// The form is that of the marked items.
    is_for_marked: bool,
    filter: Filter,
}

impl Change {
    fn of(fields: &Fields) -> Self {
        let field = |name: &str| {
            let found = fields.iter().find(|(known, _)| known == name);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        Self {
            form: field("form"),
            kind: field("change"),
            reason: field("reason"),
            rate: field("rate"),
            request_id: field("request_id"),
            is_for_marked: !field("marked").is_empty(),
            filter: Filter::of(fields),
        }
    }

    fn request(&self, queue: String) -> Result<StartOperationRequest, Failure> {
        // Without a key the filter would fit all items.
        if self.is_for_marked && self.filter.keys.is_empty() {
            let problem = "no item is marked: mark some in the list, or change all items that fit";
            return Err(Status::invalid_argument(problem).into());
        }
        let action = match &*self.kind {
            "redrive" => Action::Redrive(Redrive::default()),
            "cancel" => Action::CancelLeases(CancelHeld::default()),
            "purge" => Action::Purge(Purge {
                state: self.filter.state().into(),
            }),
            _ => return Err(Failure::Forbidden("The form is not one of these pages.")),
        };
        let invalid = |_| Status::invalid_argument("rate: must be a number");
        let rate = match self.rate.trim() {
            "" => 0,
            rate => rate.parse().map_err(invalid)?,
        };
        Ok(StartOperationRequest {
            queue,
            filter: Some(self.filter.to_proto()?),
            action: Some(action),
            max_per_second: rate,
            request_id: self.request_id.clone(),
            reason: self.reason.clone(),
            ..StartOperationRequest::default()
        })
    }

    /// Returns the change as a question and as the text of the button.
    fn words(&self) -> (&'static str, &'static str) {
        match &*self.kind {
            "redrive" => ("Make these dead items ready again?", "Redrive"),
            "cancel" => ("Take these leases away from their workers?", "Take away"),
            _ => ("Delete these rows? This cannot be undone.", "Delete"),
        }
    }
}

pub(super) async fn page(
    viewer: Viewer,
    Path(queue): Path<String>,
    Form(fields): Form<Fields>,
) -> Result<Response, Failure> {
    let mut change = Change::of(&fields);
    viewer.check_form(&change.form)?;
    // The items that are counted here are those that the form changes.
    change.filter = change.filter.with_moments();
    let request = StartOperationRequest {
        dry_run: true,
        ..change.request(queue.clone())?
    };
    let counted = viewer
        .call(async move |api, caller| api.start_operation(&caller, request).await)
        .await?;
    let number = format::count(counted.matched, counted.at_least);
    let (question, button) = change.words();
    let back = format!(
        "/queues/{}/items?{}",
        format::url(&queue),
        change.filter.query("")
    );
    let content = html! {
        div.narrow.panel {
            h1 { (question) }
            p.big { (number) @if counted.matched == 1 { " item of " } @else { " items of " } strong { (queue) } }
            p.hint { (format::text(&change.filter.sentence())) }
            @if counted.matched == 0 { p { "Nothing fits, so nothing would change." } p { a href=(back) { "Back" } } } @else {
                form method="post" action={ "/queues/" (format::url(&queue)) "/start" } {
                    (form_token(&viewer))
                    (change.filter.hidden_field())
                    input type="hidden" name="change" value=(change.kind);
                    input type="hidden" name="request_id" value=(uuid::Uuid::new_v4());
                    label { "Reason, for your colleagues" input type="text" name="reason" maxlength="1024"; }
                    label { "Items per second, at most" input type="number" name="rate" min="1" placeholder="no limit"; }
                    div.row { button.strong.bad[change.kind == "purge"] type="submit" { (button) " " (number) } a href=(back) { "Back" } }
                }
            }
        }
    };
    Ok(framed(&viewer, (question, Section::Queues), None, &content))
}

pub(super) async fn start(
    viewer: Viewer,
    Path(queue): Path<String>,
    Form(fields): Form<Fields>,
) -> Result<Response, Failure> {
    let change = Change::of(&fields);
    viewer.check_form(&change.form)?;
    let request = change.request(queue)?;
    viewer
        .call(async move |api, caller| api.start_operation(&caller, request).await)
        .await?;
    Ok(redirect("/operations"))
}
