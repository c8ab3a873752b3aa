//! `list`: lists the items of a queue.

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_proto::{self as proto, ItemState};

use super::admin::Admin;
use super::complete;
use super::filter_args::FilterArgs;
use super::item_row::item_row;
use super::place_args::{PlaceArgs, with_place};
use super::state_name::StateName;
use crate::cli::CommandError;
use crate::cli::config_args::unknown_queue;
use crate::cli::output::{OutputFormat, note};

/// The maximum number of items on a page of the service.
const PAGE: usize = 1_000;

/// List the items of a queue in one state
///
/// Shows the worker, the age, the due time, the attempts and the last error of each item. Dead items are listed by the time at which
/// they became dead, leased and delayed ones by their due time, and ready and completed ones by key. It takes no lease. Needs no right
/// to write, and does not wait for programs that write.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Fields of --output json and csv: key; owner; state_time and age_seconds (since when the item is in the state); due_time and
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
    #[arg(long, value_enum, default_value_t = StateName::Leased)]
    state: StateName,
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

/// The number of items to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Items(usize),
    All,
}

pub(super) fn parse_limit(text: &str) -> Result<Limit, String> {
    match text {
        "all" => Ok(Limit::All),
        number => number
            .parse()
            .map(Limit::Items)
            .map_err(|_| "must be a number or all".to_owned()),
    }
}

impl List {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        if self.newest && self.state != StateName::Dead {
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
            state: ItemState::from(self.state).into(),
            filter: Some(self.filter.filter(&[])),
            page_size: 0,
            page_token: String::new(),
            newest_first: self.newest,
        };
        let pages = Pages::new(&admin, request);
        match self.limit {
            Limit::Items(limit) => list(pages, self.place.output(), limit).await,
            Limit::All => list_all(pages, self.place.output()).await,
        }
    }
}

/// The text of a table without items.
const NO_ITEMS: &str = "no items in this state";

async fn list(
    mut pages: Pages<'_>,
    output: OutputFormat,
    limit: usize,
) -> Result<(), CommandError> {
    // One more than asked for shows that there are more.
    let asked = limit.saturating_add(1);
    let mut items = Vec::new();
    while items.len() < asked
        && let Some(page) = pages.next(asked - items.len()).await?
    {
        items.extend(page);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let rows: Vec<_> = items.iter().map(item_row).collect();
    output.print(&rows, NO_ITEMS);
    if has_more {
        note(&format!(
            "{limit} items are listed, and there are more: --limit N lists N, --limit all lists all"
        ));
    }
    Ok(())
}

/// Lists all items, page by page, so that the command needs no memory for them.
async fn list_all(mut pages: Pages<'_>, output: OutputFormat) -> Result<(), CommandError> {
    let mut is_first = true;
    while let Some(items) = pages.next(PAGE).await? {
        let rows: Vec<_> = items.iter().map(item_row).collect();
        output.print_page(&rows, is_first);
        is_first &= rows.is_empty();
    }
    if is_first {
        output.print(&[], NO_ITEMS);
    }
    Ok(())
}

/// The pages of a list. A page can have fewer items than were asked for, or none, although more follow.
pub(super) struct Pages<'a> {
    admin: &'a Admin,
    /// The request of the next page. `None`: there is none.
    request: Option<proto::ListItemsRequest>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(admin: &'a Admin, request: proto::ListItemsRequest) -> Self {
        Self {
            admin,
            request: Some(request),
        }
    }

    /// Returns up to `wanted` items more. `None`: there are no more.
    pub(super) async fn next(
        &mut self,
        wanted: usize,
    ) -> Result<Option<Vec<proto::ItemSummary>>, CommandError> {
        let Some(mut request) = self.request.take() else {
            return Ok(None);
        };
        request.page_size = i32::try_from(wanted.min(PAGE)).unwrap_or(i32::MAX);
        let page = self.admin.list_items(request.clone()).await?;
        if !page.next_page_token.is_empty() {
            request.page_token = page.next_page_token;
            self.request = Some(request);
        }
        Ok(Some(page.items))
    }
}
