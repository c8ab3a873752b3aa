//! `groups`: lists the groups of a queue, pauses one, and ends its pause.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use lease_broker_proto as proto;
use prost_types::Timestamp;

use super::admin::Admin;
use super::audit_args::AuditArgs;
use super::complete;
use super::group_list::ListGroups;
use super::pause_parts::{PauseParts, with_pause};
use super::place_args::{PlaceArgs, with_place};
use super::time_args::parse_future;
use crate::cli::CommandError;
use crate::cli::output::{Row, note};

/// List the groups of a queue, and pause single ones
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Groups {
    List(ListGroups),
    Pause(PauseGroup),
    Resume(ResumeGroup),
}

impl Groups {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        match self {
            Self::List(command) => command.run().await,
            Self::Pause(command) => command.run().await,
            Self::Resume(command) => command.run().await,
        }
    }
}

/// Pause a group: give no more leases for its items
///
/// The pause is stored in the database. It counts for all brokers, and survives restarts. Other groups go on, and so do the workers
/// that hold leases. A group that is paused already gets the new pause. So does one that has no items yet.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Examples:
  lease-broker groups pause orders 42 --reason prices
  lease-broker groups pause orders 42 --until 2h              end the pause by itself"))]
pub(in crate::cli) struct PauseGroup {
    /// Queue
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Group: a value of the column that the queue's setting `group` names
    #[arg(allow_hyphen_values = true)]
    group: String,
    /// Reason, for colleagues who find the group paused
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// End of the pause: RFC 3339, or a duration from now such as 2h [default: until `groups resume`]
    #[arg(long, value_name = "TIME", value_parser = parse_future)]
    until: Option<Timestamp>,
    #[command(flatten)]
    place: PlaceArgs,
}

impl PauseGroup {
    async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.change(Some(&self.queue)).await?;
        let request = proto::PauseGroupRequest {
            queue: self.queue.clone(),
            group: self.group.clone(),
            reason: self.reason.unwrap_or_default(),
            until: self.until,
        };
        let pause = admin.pause_group(request).await?.pause.unwrap_or_default();
        let row = pause_row(&self.queue, &pause.group, Some(&pause));
        self.place.output().print_result(&pause_text(&pause), &row);
        if has_items(&admin, &pause).await == Some(false) {
            note(&format!(
                "no ready, leased or delayed item has the group {} now; the pause counts for items that come",
                pause.group
            ));
        }
        Ok(())
    }
}

/// Returns whether the list of groups has an item of a paused group. `None`: it is not known, because the list is not available, or too
/// long to look through.
async fn has_items(admin: &Admin, pause: &proto::GroupPause) -> Option<bool> {
    const MAX_PAGES: usize = 10;

    let mut request = proto::ListGroupsRequest {
        queue: pause.queue.clone(),
        state: proto::GroupState::Paused.into(),
        page_size: 1_000,
        page_token: String::new(),
    };
    for _ in 0..MAX_PAGES {
        let page = admin.list_groups(request.clone()).await.ok()?;
        let is_paused = |group: &&proto::GroupSummary| {
            let other = group.pause.as_ref();
            other.is_some_and(|other| other.group == pause.group)
        };
        if let Some(group) = page.groups.iter().find(is_paused) {
            return Some(group.head.is_some());
        }
        if page.next_page_token.is_empty() {
            return None;
        }
        request.page_token = page.next_page_token;
    }
    None
}

/// End the pause of a group
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Examples:
  lease-broker groups resume orders 42"))]
pub(in crate::cli) struct ResumeGroup {
    /// Queue
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Group: a value of the column that the queue's setting `group` names
    #[arg(allow_hyphen_values = true)]
    group: String,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

impl ResumeGroup {
    async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.change(Some(&self.queue)).await?;
        let (queue, group) = (&self.queue, &self.group);
        let request = proto::ResumeGroupRequest {
            queue: queue.clone(),
            group: group.clone(),
            reason: self.audit.reason,
        };
        let ended = admin.resume_group(request).await?.ended;
        let sentence = match &ended {
            Some(_) => format!("group {group} of queue {queue} is not paused any more"),
            None => format!("group {group} of queue {queue} was not paused"),
        };
        let row = pause_row(queue, group, None).field("was_paused", ended.is_some());
        self.place.output().print_result(&sentence, &row);
        Ok(())
    }
}

/// Returns a pause as one sentence.
fn pause_text(pause: &proto::GroupPause) -> String {
    let (group, queue) = (&pause.group, &pause.queue);
    let rest = PauseParts::from(pause).text();
    format!("group {group} of queue {queue} is paused{rest}")
}

/// Returns the row of a pause.
fn pause_row(queue: &str, group: &str, pause: Option<&proto::GroupPause>) -> Row {
    let row = Row::default()
        .field("queue", queue)
        .field("group", group)
        .field("paused", pause.is_some());
    with_pause(row, pause.map(PauseParts::from))
}
