//! `groups list`: lists the groups of a queue.

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_proto as proto;

use super::complete;
use super::item_row::known;
use super::listing::{self, Limit, listing, parse_limit};
use super::place_args::{PlaceArgs, with_place};
use super::word_arg::word;
use crate::cli::CommandError;
use crate::cli::output::{Row, proto_moment, std_duration};
use crate::grpc::Words as _;

/// List the groups of a queue with their states
///
/// A group is ready, leased (it has as many leases as it may have), waiting (its first item is delayed), halted (by a dead item) or
/// paused. Groups without items that could be claimed are left out, unless they are paused.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Fields of --output json and csv: group; state; leases (up to 1000); key, item_state, age_seconds, due_time and due_in_seconds of the \
item that decides about the state; paused_until; reason and actor of the pause.

Examples:
  lease-broker groups list orders
  lease-broker groups list orders --state halted
  lease-broker groups list orders --limit all --output csv"))]
pub(in crate::cli) struct ListGroups {
    /// Queue
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Only groups in this state
    #[arg(long, value_parser = word::<proto::GroupState>())]
    state: Option<proto::GroupState>,
    /// Number of groups to list, or all
    #[arg(long, value_name = "N", default_value = "100", value_parser = parse_limit)]
    limit: Limit,
    #[command(flatten)]
    place: PlaceArgs,
}

impl ListGroups {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.look(Some(&self.queue)).await?;
        let request = proto::ListGroupsRequest {
            queue: self.queue,
            state: self.state.unwrap_or_default().into(),
            ..proto::ListGroupsRequest::default()
        };
        listing::print(&admin, request, self.place.output(), self.limit).await
    }
}

listing! {
    ListGroupsRequest of list_groups: groups, GroupSummary, "no groups in this state", group_row
}

/// Returns the row of a group.
fn group_row(group: &proto::GroupSummary) -> Row {
    let head = group.head.as_ref();
    let pause = group.pause.as_ref();
    let age = std_duration(head.and_then(|head| head.age));
    let due_in = std_duration(head.and_then(|head| head.due_in));
    let key = head.map_or("", |head| &head.key);
    Row::default()
        .field("group", group.group.clone())
        .field("state", group.state().word())
        .field("leases", group.leases)
        .field("key", known(key))
        .field(
            "item_state",
            head.and_then(|head| head.state().known_word()),
        )
        .shown_duration("since", age)
        .data_duration("age", age)
        .data(
            "due_time",
            proto_moment(head.and_then(|head| head.due_time)),
        )
        .duration("due_in", due_in)
        .field(
            "paused_until",
            proto_moment(pause.and_then(|pause| pause.until)),
        )
        .field("reason", known(pause.map_or("", |pause| &pause.reason)))
        .data("actor", known(pause.map_or("", |pause| &pause.actor)))
}
