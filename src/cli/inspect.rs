//! `stats`, `list` and `redrive`: commands for operators, which open the store directly.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value as Json, json};

use super::CommandError;
use super::config_args::{ConfigArgs, open_existing_store, unknown_queue};
use super::output::{OutputFormat, format_duration, plural, print_line};
use crate::config::Config;
use crate::item_state::State;
use crate::store::{self, Checkpoints, QueueIndex, Store};

/// Count the items of each queue by state
///
/// Also shows the age of the oldest ready item and of the oldest lease. Reads the store directly with the configuration of the service. The service need not run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker stats
  lease-broker stats --config queues.toml --output json
  lease-broker stats --exact                     count every item instead of printing 10000+")]
pub(super) struct Stats {
    /// Count every item, which can take long [default: stop counting a state at 10,000 items]
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    args: StoreArgs,
}

/// Arguments of the commands that read the store: the configuration and the output format.
#[derive(Debug, Args)]
struct StoreArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Output format: a table, or one JSON object per line
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

/// List the items of a queue in one state
///
/// Shows the worker, the age, the due time, the attempts and the last error of each item. Reads the store directly with the configuration of the service. The service need not run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker list                              print the names of the queues
  lease-broker list rainfall                     list leased items and their workers
  lease-broker list rainfall --state dead        list dead items and their last errors")]
pub(super) struct List {
    /// Queue to list. Without it, the error names the configured queues
    queue: Option<String>,
    /// State of the items
    #[arg(long, value_enum, default_value_t = StateName::Leased)]
    state: StateName,
    /// Maximum number of items to list
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    args: StoreArgs,
}

/// Make dead items ready again and reset their attempts
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker redrive rainfall --limit 1        redrive one item first
  lease-broker redrive rainfall")]
pub(super) struct Redrive {
    /// Queue of the dead items
    queue: String,
    /// Maximum number of items to redrive, in the order in which they died; on SQL Server without filtered indexes, in
    /// the order of the queue [default: all]
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
    /// Remove the checkpoints, so that the next attempts start from the beginning [default: keep them]
    #[arg(long)]
    clear_checkpoint: bool,
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
        let config = self.args.config.load(Vec::new())?;
        let store = open_existing_store(&config).await?;
        let mut rows = Vec::new();
        for (index, queue) in config.queues.iter().enumerate() {
            let index = QueueIndex(index);
            let stats = if self.exact {
                store.exact_stats(index).await?
            } else {
                store.stats(index).await?
            };
            let mut row = Map::from_iter([("queue".to_owned(), json!(queue.name))]);
            row.extend(counts(&stats, self.args.output));
            row.insert("oldest_ready".to_owned(), age(stats.oldest_ready));
            row.insert("oldest_lease".to_owned(), age(stats.oldest_lease));
            rows.push(row);
        }
        self.args.output.print(&rows, "no queues");
        Ok(())
    }
}

impl List {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let config = self.args.config.load(Vec::new())?;
        let Some(name) = &self.queue else {
            return Err(unknown_queue(&config, None));
        };
        let (store, queue) = open_queue(&config, name).await?;
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
        self.args.output.print(&rows, "no items in this state");
        Ok(())
    }
}

impl Redrive {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        /// Maximum rows per transaction. Workers wait for its locks, so a transaction must be short.
        const BATCH: usize = 1_000;

        let config = self.config.load(Vec::new())?;
        let (store, queue) = open_queue(&config, &self.queue).await?;
        let checkpoints = if self.clear_checkpoint {
            Checkpoints::Clear
        } else {
            Checkpoints::Keep
        };
        let mut redriven = 0;
        while redriven < self.limit {
            let limit = BATCH.min(self.limit - redriven);
            match store.redrive(queue, limit, checkpoints).await? {
                0 => break,
                count => redriven += count,
            }
        }
        let verb = if redriven == 1 { "is" } else { "are" };
        print_line!("{} {verb} ready again", plural(redriven as u64, "item"));
        Ok(())
    }
}

/// Returns one field per state with its count.
///
/// A count can be a lower bound. A table shows it as `10000+`. In JSON every count is a number, and the field `at_least`
/// lists the states whose count is a lower bound.
fn counts(stats: &store::Stats, output: OutputFormat) -> Map<String, Json> {
    let name = |state: &State| state.name().to_owned();
    let lower_bounds: Vec<State> = State::ALL
        .into_iter()
        .filter(|state| stats.is_lower_bound(*state))
        .collect();
    let count = |state: &State| match output {
        OutputFormat::Table if lower_bounds.contains(state) => {
            json!(format!("{}+", stats.count_of(*state)))
        }
        _ => json!(stats.count_of(*state)),
    };
    let mut fields: Map<String, Json> = State::ALL
        .iter()
        .map(|state| (name(state), count(state)))
        .collect();
    if output == OutputFormat::Json && !lower_bounds.is_empty() {
        let names: Vec<String> = lower_bounds.iter().map(name).collect();
        fields.insert("at_least".to_owned(), json!(names));
    }
    fields
}

/// Opens the store and returns it with the index of a queue.
///
/// # Errors
/// Exit code 64 if the configuration has no queue of this name.
pub(super) async fn open_queue(
    config: &Config,
    name: &str,
) -> Result<(Arc<dyn Store>, QueueIndex), CommandError> {
    let index = config.queues.iter().position(|queue| queue.name == name);
    let index = index.ok_or_else(|| unknown_queue(config, Some(name)))?;
    Ok((open_existing_store(config).await?, QueueIndex(index)))
}

fn age(age: Option<Duration>) -> Json {
    age.map_or(Json::Null, |age| json!(format_duration(age)))
}
