//! The pages that stay fresh while they are open: what each of them reads, and how it is drawn for a viewer.

use axum::extract::{Path, Query};
use axum::response::Response;
use lease_broker_proto::{ListBrokersResponse, ListOperationsResponse, ListQueuesResponse};
use maud::Markup;
use serde::Deserialize;
use tonic::Status;

use super::answer::Failure;
use super::layout::{Section, framed};
use super::queue::QueueContent;
use super::queues::View;
use super::viewer::Viewer;
use super::{brokers, format, operations, queue, queues};
use crate::grpc::{AdminApi, Caller};
use crate::security::Rpc;

/// Answers with the page of all queues.
pub(super) async fn queues(viewer: Viewer, Query(view): Query<View>) -> Result<Response, Failure> {
    answer(viewer, LivePage::Queues, view).await
}

/// Answers with the page of one queue.
pub(super) async fn queue(viewer: Viewer, Path(queue): Path<String>) -> Result<Response, Failure> {
    answer(viewer, LivePage::Queue { queue }, View::default()).await
}

/// Answers with the page of operations.
pub(super) async fn operations(viewer: Viewer) -> Result<Response, Failure> {
    answer(viewer, LivePage::Operations, View::default()).await
}

/// Answers with the page of brokers.
pub(super) async fn brokers(viewer: Viewer) -> Result<Response, Failure> {
    answer(viewer, LivePage::Brokers, View::default()).await
}

async fn answer(viewer: Viewer, live: LivePage, view: View) -> Result<Response, Failure> {
    let (title, section) = (live.title().to_owned(), live.section());
    let events = format!("{}{}", live.events(), view.query());
    let read = async move |api, caller| live.read(api, caller).await;
    let content = viewer.call(read).await?.draw(&viewer, &view);
    let title = (&*title, section);
    Ok(framed(&viewer, title, Some(&events), &content))
}

/// A live page. The query of its events is its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(tag = "page", rename_all = "lowercase")]
pub(super) enum LivePage {
    Queues,
    Queue { queue: String },
    Operations,
    Brokers,
}

/// What a live page shows, of all queues.
pub(super) enum Content {
    Queues(ListQueuesResponse),
    Queue(Box<QueueContent>),
    Operations(ListOperationsResponse),
    Brokers(ListBrokersResponse),
}

impl LivePage {
    fn title(&self) -> &str {
        match self {
            Self::Queues => "Queues",
            Self::Queue { queue } => queue,
            Self::Operations => "Operations",
            Self::Brokers => "Brokers",
        }
    }

    fn section(&self) -> Section {
        match self {
            Self::Queues | Self::Queue { .. } => Section::Queues,
            Self::Operations => Section::Operations,
            Self::Brokers => Section::Brokers,
        }
    }

    /// Returns the path of the page's events.
    fn events(&self) -> String {
        match self {
            Self::Queues => "/events?page=queues".to_owned(),
            Self::Queue { queue } => format!("/events?page=queue&queue={}", format::url(queue)),
            Self::Operations => "/events?page=operations".to_owned(),
            Self::Brokers => "/events?page=brokers".to_owned(),
        }
    }

    /// Returns whether a viewer may look at the page.
    pub(super) fn is_visible(&self, viewer: &Viewer) -> bool {
        let caller = &viewer.caller;
        match self {
            Self::Queues => caller.may_somewhere(Rpc::ListQueues),
            Self::Queue { queue } => {
                caller.may(Rpc::ListQueues, queue) && caller.may(Rpc::ListItems, queue)
            }
            Self::Operations => caller.may_somewhere(Rpc::ListOperations),
            Self::Brokers => caller.may_somewhere(Rpc::ListBrokers),
        }
    }

    /// Reads the data of the page that the caller may see.
    ///
    /// # Errors
    /// The error of the call.
    pub(super) async fn read(self, api: AdminApi, caller: Caller) -> Result<Content, Status> {
        Ok(match self {
            Self::Queues => Content::Queues(queues::read(&api, &caller).await?),
            Self::Queue { queue } => {
                Content::Queue(Box::new(queue::read(&api, &caller, &queue).await?))
            }
            Self::Operations => Content::Operations(operations::read(&api, &caller).await?),
            Self::Brokers => Content::Brokers(brokers::read(&api, &caller).await?),
        })
    }
}

impl Content {
    /// Draws the content for a viewer, without the queues that the viewer may not see.
    pub(super) fn draw(&self, viewer: &Viewer, view: &View) -> Markup {
        match self {
            Self::Queues(listed) => queues::content(viewer, listed, view),
            Self::Queue(read) => queue::content(viewer, read),
            Self::Operations(listed) => operations::content(viewer, listed),
            Self::Brokers(listed) => brokers::content(viewer, listed),
        }
    }
}
