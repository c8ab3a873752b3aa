//! `stats` and `list`: commands for operators that read the store directly.

use clap::{Args, ValueEnum};
use lease_broker_model::item_state::State;
use lease_broker_store::{Inspect, ListedItem, QueueIndex, Stats as StoredStats, StoreError};
use serde_json::Value as Json;

use super::CommandError;
use super::config_args::{ConfigArgs, configured_queue, open_to_read, unknown_queue};
use super::output::{OutputFormat, Row, format_duration, moment, note};

/// Count the items of each queue by state
///
/// Also shows the age of the oldest ready item and of the oldest lease. Reads the store directly with the configuration of the
/// service, which need not run. Needs no right to write, and does not wait for programs that write.
#[derive(Debug, Args)]
#[command(after_help = "\
Fields of --output json and csv: queue; ready, leased, delayed, completed, dead; at_least (states that can have more items than
were counted); oldest_ready_seconds, oldest_lease_seconds; sampled (states of which only a sample was searched for the oldest).

Examples:
  lease-broker stats
  lease-broker stats --config queues.toml --output json
  lease-broker stats --exact                     count every item instead of printing 10000+")]
pub(super) struct Stats {
    /// Count every item, which can take long [default: stop counting a state at 10,000 items]
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    args: ReadArgs,
}

/// Arguments of the commands that read the store: the configuration and the output format.
#[derive(Debug, Args)]
pub(super) struct ReadArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Output format. JSON has one object per line
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub(super) output: OutputFormat,
}

/// List the items of a queue in one state
///
/// Shows the worker, the age, the due time, the attempts and the last error of each item, those that have been in the state
/// longest first. Reads the store directly with the configuration of the service, which need not run. Needs no right to write,
/// and does not wait for programs that write.
#[derive(Debug, Args)]
#[command(after_help = "\
Fields of --output json and csv: key; owner; state_time and age_seconds (since when the item is in the state); due_time and
due_in_seconds (expiry of a lease, end of a delay); attempt; fencing_token; error. Moments are RFC 3339 in UTC.

Examples:
  lease-broker list                              print the names of the queues
  lease-broker list rainfall                     list leased items and their workers
  lease-broker list rainfall --state dead        list dead items and their last errors
  lease-broker list rainfall --state dead --limit all --output csv")]
pub(super) struct List {
    /// Queue to list. Without it, the error names the configured queues
    queue: Option<String>,
    /// State of the items
    #[arg(long, value_enum, default_value_t = StateName::Leased)]
    state: StateName,
    /// Maximum number of items to list, or `all`. More than 10,000 items are listed in the order of the key with `all`
    #[arg(long, value_name = "N", default_value = "50", value_parser = parse_limit)]
    limit: Limit,
    #[command(flatten)]
    args: ReadArgs,
}

/// The number of items to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Items(usize),
    All,
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    match text {
        "all" => Ok(Limit::All),
        number => number
            .parse()
            .map(Limit::Items)
            .map_err(|_| "must be a number or all".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StateName {
    Ready,
    Leased,
    Delayed,
    Completed,
    Dead,
}

impl From<StateName> for State {
    fn from(name: StateName) -> Self {
        match name {
            StateName::Ready => Self::Ready,
            StateName::Leased => Self::Leased,
            StateName::Delayed => Self::Delayed,
            StateName::Completed => Self::Completed,
            StateName::Dead => Self::Dead,
        }
    }
}

impl Stats {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let config = self.args.config.load(Vec::new())?;
        let store = open_to_read(&config, &config.queues).await?;
        let mut rows = Vec::new();
        for (index, queue) in config.queues.iter().enumerate() {
            let index = QueueIndex(index);
            let stats = if self.exact {
                store.exact_stats(index).await?
            } else {
                store.stats(index).await?
            };
            rows.push(row_of_queue(&queue.name, &stats));
        }
        self.args.output.print(&rows, "no queues");
        Ok(())
    }
}

/// Returns the row of a queue. A count can be a lower bound, and an age that of the oldest of a sample. A table shows them as
/// `10000+` and `5m+`. For programs every count is a number, and `at_least` and `sampled` list the states.
fn row_of_queue(name: &str, stats: &StoredStats) -> Row {
    let mut row = Row::default().field("queue", name);
    let mut lower_bounds = Vec::new();
    for state in State::ALL {
        let count = stats.count_of(state);
        let mut shown = count.to_string();
        if stats.is_lower_bound(state) {
            shown.push('+');
            lower_bounds.push(state.name());
        }
        row = row.shown(state.name(), shown).data(state.name(), count);
    }
    row = row.data("at_least", lower_bounds);
    for (name, age, is_sampled) in [
        (
            "oldest_ready",
            stats.oldest_ready,
            stats.oldest_ready_is_sampled,
        ),
        (
            "oldest_lease",
            stats.oldest_lease,
            stats.oldest_lease_is_sampled,
        ),
    ] {
        let mut shown = age.map_or_else(|| "-".to_owned(), format_duration);
        if is_sampled && age.is_some() {
            shown.push('+');
        }
        row = row.shown(name, shown).data_duration(name, age);
    }
    let sampled: Vec<&str> = stats.sampled_states().map(State::name).collect();
    row.data("sampled", sampled)
}

/// The text of a table without items.
const NO_ITEMS: &str = "no items in this state";

impl List {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let config = self.args.config.load(Vec::new())?;
        let Some(name) = &self.queue else {
            return Err(unknown_queue(&config, None));
        };
        let queue = configured_queue(&config, name)?;
        let store = open_to_read(&config, std::slice::from_ref(queue)).await?;
        match self.limit {
            Limit::Items(limit) => self.list(&*store, limit).await?,
            Limit::All => self.list_all(&*store).await?,
        }
        Ok(())
    }

    async fn list(&self, store: &dyn Inspect, limit: usize) -> Result<(), StoreError> {
        // One more than asked for shows that there are more.
        let asked = limit.saturating_add(1);
        let mut items = store.list(QUEUE, self.state.into(), asked).await?;
        let has_more = items.len() > limit;
        items.truncate(limit);
        self.args.output.print(&rows_of(&items), NO_ITEMS);
        if has_more {
            note(&format!(
                "{limit} items are listed, and there are more: --limit N lists N, --limit all lists all"
            ));
        }
        Ok(())
    }

    /// Lists all items. Those that fit into one result have its order. More are read page by page in the order of the key, so that
    /// the command needs no more memory for them.
    async fn list_all(&self, store: &dyn Inspect) -> Result<(), StoreError> {
        const PAGE: usize = 1_000;
        const RESULT: usize = 10_000;

        let state = self.state.into();
        let items = store.list(QUEUE, state, RESULT + 1).await?;
        if items.len() <= RESULT {
            self.args.output.print(&rows_of(&items), NO_ITEMS);
            return Ok(());
        }
        drop(items);
        let mut last = None;
        loop {
            let is_first = last.is_none();
            let items = store.list_after(QUEUE, state, last, PAGE).await?;
            self.args.output.print_page(&rows_of(&items), is_first);
            last = match items.into_iter().nth(PAGE - 1) {
                Some(item) => Some(item.key),
                None => return Ok(()),
            };
        }
    }
}

/// The only queue of a store that was opened for it.
pub(super) const QUEUE: QueueIndex = QueueIndex(0);

fn rows_of(items: &[ListedItem]) -> Vec<Row> {
    let row = |item: &ListedItem| {
        Row::default()
            .field("key", item.key.to_string())
            .field("owner", Json::from(item.owner.clone()))
            .shown_duration("since", item.age)
            .data("state_time", moment(item.state_time))
            .data_duration("age", item.age)
            .data("due_time", moment(item.due_time))
            .duration("due_in", item.due_in)
            .field("attempt", item.attempt)
            .field("fencing_token", item.fence)
            .field("error", Json::from(item.error.clone()))
    };
    items.iter().map(row).collect()
}
