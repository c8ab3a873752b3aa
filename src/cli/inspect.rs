//! `stats`, `list` and `redrive`: what operators ask of a queue, straight from the store.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value as Json, json};

use super::CommandError;
use super::config_args::{ConfigArgs, open_existing_store};
use super::output::print_line;
use super::output::{OutputFormat, format_duration};
use crate::config::Config;
use crate::item_state::State;
use crate::store::{self, QueueIndex, Store};

/// Count items by state, and show the ages to watch: of the oldest ready item, and of the oldest lease.
///
/// Reads the store itself, with the service's configuration, whether the service runs or not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker stats
  lease-broker stats --config queues.toml --output json
  lease-broker stats --exact                     count every item, where 10000+ is not enough")]
pub(super) struct Stats {
    /// Count every item, however long that takes; else 10,000 of a state may be enough
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Where to look, and how to print what is there.
#[derive(Debug, Args)]
struct StoreArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

/// List items of one state: who holds what, since when, until when.
///
/// Reads the store itself, with the service's configuration, whether the service runs or not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker list rainfall                     who holds what
  lease-broker list rainfall --state dead        what was given up, and why")]
pub(super) struct List {
    /// Queue to look at
    queue: String,
    /// State that the items are in
    #[arg(long, value_enum, default_value_t = StateName::Leased)]
    state: StateName,
    /// Most items to list
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    store: StoreArgs,
}

/// Make dead items ready, with all their attempts before them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker redrive rainfall --limit 1        try one first
  lease-broker redrive rainfall")]
pub(super) struct Redrive {
    /// Queue whose dead items are made ready
    queue: String,
    /// Most items to redrive, the longest dead first
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
    #[command(flatten)]
    config: ConfigArgs,
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
        let config = self.store.config.load(Vec::new())?;
        let store = open_existing_store(&config).await?;
        let mut rows = Vec::new();
        for (at, queue) in config.queues.iter().enumerate() {
            let at = QueueIndex(at);
            let stats = if self.exact {
                store.exact_stats(at).await?
            } else {
                store.stats(at).await?
            };
            let mut row = Map::from_iter([("queue".to_owned(), json!(queue.name))]);
            row.extend(counts(&stats, self.store.output));
            row.insert("oldest_ready".to_owned(), age(stats.oldest_ready));
            row.insert("oldest_lease".to_owned(), age(stats.oldest_lease));
            rows.push(row);
        }
        self.store.output.print(&rows, "no queues");
        Ok(())
    }
}

impl List {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let config = self.store.config.load(Vec::new())?;
        let (store, queue) = find(&config, &self.queue).await?;
        let items = store.list(queue, self.state.into(), self.limit).await?;
        let rows: Vec<Map<String, Json>> = items
            .into_iter()
            .map(|item| {
                [
                    ("key", json!(item.key.to_string())),
                    ("owner", json!(item.owner)),
                    ("since", age(item.age)),
                    ("due_in", age(item.due_in)),
                    ("attempt", json!(item.attempt)),
                    ("fencing_token", json!(item.fence)),
                    ("error", json!(item.error)),
                ]
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .collect()
            })
            .collect();
        self.store.output.print(&rows, "no such items");
        Ok(())
    }
}

impl Redrive {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        /// Rows that one transaction changes: workers are not kept waiting for long.
        const BATCH: usize = 1_000;

        let config = self.config.load(Vec::new())?;
        let (store, queue) = find(&config, &self.queue).await?;
        let mut redriven = 0;
        while redriven < self.limit {
            match store
                .redrive(queue, BATCH.min(self.limit - redriven))
                .await?
            {
                0 => break,
                more => redriven += more,
            }
        }
        print_line!("{redriven} items are ready again");
        Ok(())
    }
}

/// Returns the fields that tell the counts: for people each says itself that it may be more, for scripts it is a number and
/// a list of its own says which.
fn counts(stats: &store::Stats, output: OutputFormat) -> Map<String, Json> {
    let name = |state: &State| state.name().to_owned();
    let more: Vec<State> = State::ALL
        .into_iter()
        .filter(|state| stats.is_lower_bound(*state))
        .collect();
    let count = |state: &State| match output {
        OutputFormat::Table if more.contains(state) => {
            json!(format!("{}+", stats.count_of(*state)))
        }
        _ => json!(stats.count_of(*state)),
    };
    let mut fields: Map<String, Json> = State::ALL
        .iter()
        .map(|state| (name(state), count(state)))
        .collect();
    if output == OutputFormat::Json && !more.is_empty() {
        let more: Vec<String> = more.iter().map(name).collect();
        fields.insert("at_least".to_owned(), json!(more));
    }
    fields
}

async fn find(config: &Config, name: &str) -> Result<(Arc<dyn Store>, QueueIndex), CommandError> {
    let place = config.queues.iter().position(|queue| queue.name == name);
    let place =
        place.ok_or_else(|| CommandError::usage(format!("no queue {name:?} is configured")))?;
    Ok((open_existing_store(config).await?, QueueIndex(place)))
}

fn age(age: Option<Duration>) -> Json {
    age.map_or(Json::Null, |age| json!(format_duration(age)))
}
