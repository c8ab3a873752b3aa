//! `list`: lists the items of a queue.

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_proto::{self as proto, ItemState};

use super::complete;
use super::filter_args::FilterArgs;
use super::item_row::item_row;
use super::listing::{self, Limit, listing, parse_limit};
use super::place_args::{PlaceArgs, with_place};
use super::word_arg::word;
use crate::cli::CommandError;
use crate::cli::config_args::unknown_queue;

/// List the items of a queue in one state
///
/// Shows the worker, the age, the due time, the attempts and the last error of each item. Dead items are listed by the time at which
/// they became dead, leased and delayed ones by their due time, and ready and completed ones by key. It takes no lease. Needs no right
/// to write, and does not wait for programs that write.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Fields of --output json and csv: key; owner; state_time and age_seconds (since when the item is in the state); due_time and \
due_in_seconds (expiry of a lease, end of a delay); attempt; fencing_token; error. Moments are RFC 3339 in UTC.

Examples:
  lease-broker list                              print the names of the queues
  lease-broker list rainfall                     list leased items and their workers
  lease-broker list rainfall --owner pc-7        list the items that one worker holds
  lease-broker list rainfall --state dead        list dead items and their last errors
  lease-broker list rainfall --state dead --newest --error timeout --since 1h
  lease-broker list rainfall --state ready --column Customer_ID=42
  lease-broker list rainfall --state dead --limit all --output csv"))]
pub(in crate::cli) struct List {
    /// Queue to list. Without it, the error names the queues
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: Option<String>,
    /// State of the items
    #[arg(long, value_parser = word::<ItemState>(), default_value = "leased")]
    state: ItemState,
    /// Maximum number of items to list, or `all`
    #[arg(long, value_name = "N", default_value = "50", value_parser = parse_limit)]
    limit: Limit,
    /// List those that became dead last first. Only with --state dead
    #[arg(long)]
    newest: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

impl List {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        if self.newest && self.state != ItemState::Dead {
            return Err(CommandError::usage(
                "--newest is for dead items; add --state dead",
            ));
        }
        let admin = self.place.look(self.queue.as_deref()).await?;
        let Some(queue) = self.queue.clone() else {
            let names = admin.queue_names().await;
            return Err(unknown_queue(names.iter().map(String::as_str), None));
        };
        let request = proto::ListItemsRequest {
            queue,
            state: self.state.into(),
            filter: Some(self.filter.filter(&[])?),
            page_size: 0,
            page_token: String::new(),
            newest_first: self.newest,
        };
        listing::print(&admin, request, self.place.output(), self.limit).await
    }
}

listing! {
    ListItemsRequest of list_items: items, ItemSummary, "no items in this state", item_row
}
