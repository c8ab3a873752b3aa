//! `demo`: the main job in one command. Worker processes share an ordinary table, one of them is killed in the middle of
//! a batch, and the database and the workers' journals are then asked whether every row was processed once.

mod journal;
mod progress;
mod summary;
mod table;
pub(super) mod worker;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tempfile::TempDir;
use tokio::net::TcpListener;

use self::progress::Progress;
use self::workers::Workers;
use super::CommandError;
use super::output::print_line;
use crate::broker::{self, Broker};
use crate::config::{Config, Sources};
use crate::grpc::{self, RunningServer};
use crate::item_state::State;
use crate::store::schema::Schema as _;
use crate::store::sqlite::{SqliteSchema, SqliteStore, system_clock};
use crate::store::{QueueIndex, Stats, Store as _};

/// How often the demo looks at the table.
const TICK: Duration = Duration::from_millis(100);
/// With nothing completed for this long, besides ten leases, something is wrong.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Watch workers share a table, and one of them die.
///
/// Makes an ordinary table Rainfall_Events in a temporary SQLite file, adopts it, serves it on a free port and starts
/// worker processes that claim its rows over gRPC. Each completion adds a result to an outbox queue in the same
/// transaction; a transfer worker drains the outbox. Workers are killed with SIGKILL in the middle of a batch: their
/// leases expire and others take their rows. In the end the database and the workers' journals tell whether every row
/// was processed once; exit code 1 if not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker demo
  lease-broker demo --events 2000 --workers 2 --kill 0
  lease-broker demo --keep rainfall.db        # and look at it afterwards, with the sqlite3 shell")]
pub(super) struct Demo {
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    events: u32,
    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Rows a claim
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    batch: u32,
    /// How long a lease lasts
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "3s")]
    lease: Duration,
    /// Workers to kill in the middle of a batch; one at least stays
    #[arg(long, value_name = "N", default_value_t = 1)]
    kill: u32,
    /// Keep the database in this file, which must not exist yet
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
}

impl Demo {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        if self.kill >= self.workers && self.kill > 0 {
            return Err(CommandError::usage(format!(
                "--kill {} of --workers {}: one at least must stay to finish the work",
                self.kill, self.workers
            )));
        }
        let folder = TempDir::with_prefix("lease-broker-demo-")
            .map_err(|error| CommandError::io(format!("no temporary folder: {error}")))?;
        let start = Instant::now();
        let service = DemoService::start(&self, &folder).await?;
        let mut workers = Workers::start(&self, service.serving.address(), folder.path())?;
        let worked = self.work(&service, &mut workers).await;
        workers.stop().await?;
        let summary = summary::Summary::read(&self, &workers, &service.file)?;
        service.stop().await;
        print_line!("\n{}", summary.table());
        worked?;
        if let Some(kept) = &self.keep {
            print_line!("the database is in {}", kept.display());
        }
        summary.verdict(&self, start.elapsed())
    }

    /// Watches the workers until every row is done and the outbox empty, and kills on the way.
    async fn work(&self, service: &DemoService, workers: &mut Workers) -> Result<(), CommandError> {
        let mut display = Progress::new(self.events.into());
        let mut to_kill = self.kill;
        let mut progress = (0, Instant::now());
        loop {
            let (events, outbox) = service.look().await?;
            let completed = events.count_of(State::Completed);
            let holders = service.holders().await?;
            display.show(&events, &outbox, &holders);
            if completed == u64::from(self.events) && outbox.count.iter().sum::<u64>() == 0 {
                display.end();
                return Ok(());
            }
            if completed > progress.0 {
                progress = (completed, Instant::now());
            } else if progress.1.elapsed() > STALL_TIMEOUT + self.lease * 10 {
                return Err(CommandError::failed(format!(
                    "demo: FAILED nothing was completed for {}",
                    humantime::format_duration(STALL_TIMEOUT + self.lease * 10)
                )));
            }
            // The first dies when a quarter is done, the others after it, each with a batch in its hands.
            if to_kill > 0
                && completed >= u64::from(self.events) / 4
                && let Some(name) = workers.kill_one_at_work().await?
            {
                to_kill -= 1;
                display.say(&format!("{name} was killed in the middle of a batch"));
            }
            workers.check()?;
            tokio::time::sleep(TICK).await;
        }
    }
}

/// The table, and the service on it.
struct DemoService {
    file: PathBuf,
    store: Arc<SqliteStore>,
    broker: Arc<Broker>,
    serving: RunningServer,
}

impl DemoService {
    /// Makes the table as another program would, adopts it and serves it.
    async fn start(demo: &Demo, folder: &TempDir) -> Result<Self, CommandError> {
        let file = match &demo.keep {
            None => folder.path().join("rainfall.db"),
            Some(kept) if kept.exists() => {
                return Err(CommandError::usage(format!(
                    "--keep {}: the file exists",
                    kept.display()
                )));
            }
            Some(kept) => kept.clone(),
        };
        table::make(&file, demo.events)?;
        print_line!(
            "made Rainfall_Events with {} rows, an ordinary table",
            demo.events
        );
        let config = configure(demo, folder)?;
        adopt(&file, &config)?;
        let store = Arc::new(SqliteStore::open(&file, &config.queues, system_clock())?);
        let settings = broker::BrokerConfig::from(&config);
        let broker = Arc::new(Broker::start(store.clone(), &config.queues, settings));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(|error| CommandError::io(format!("no port to listen on: {error}")))?;
        let serving = grpc::serve(listener, broker.clone(), &config.server)
            .map_err(|error| CommandError::io(error.to_string()))?;
        print_line!("serving it on {}\n", serving.address());
        Ok(Self {
            file,
            store,
            broker,
            serving,
        })
    }

    async fn look(&self) -> Result<(Stats, Stats), CommandError> {
        let events = self.store.exact_stats(table::EVENTS).await?;
        let outbox = self.store.exact_stats(table::OUTBOX).await?;
        Ok((events, outbox))
    }

    /// Returns who holds how many rows, by name.
    async fn holders(&self) -> Result<Vec<(String, usize)>, CommandError> {
        let leased = self
            .store
            .list(table::EVENTS, State::Leased, 100_000)
            .await?;
        let mut holders = std::collections::BTreeMap::new();
        for item in leased {
            *holders.entry(item.owner.unwrap_or_default()).or_insert(0) += 1;
        }
        Ok(holders.into_iter().collect())
    }

    async fn stop(self) {
        self.serving.drain().await;
        self.broker.stop().await;
    }
}

fn configure(demo: &Demo, folder: &TempDir) -> Result<Config, CommandError> {
    let file = folder.path().join("demo.toml");
    std::fs::write(&file, table::configuration(demo.lease))
        .map_err(|error| CommandError::io(format!("{}: {error}", file.display())))?;
    let sources = Sources {
        file: Some(file),
        ..Sources::default()
    };
    let config = sources.load();
    config.map_err(|error| CommandError::usage(format!("--lease: {}", error.reason)))
}

fn adopt(file: &std::path::Path, config: &Config) -> Result<(), CommandError> {
    let mut schema = SqliteSchema::open(file)?;
    let QueueIndex(events) = table::EVENTS;
    let steps = schema.plan(&config.queues[events])?;
    for step in &steps {
        schema.apply(step, &mut |_| ())?;
    }
    print_line!(
        "adopted it: {} changes, soft-lock columns and indexes beside its own",
        steps.len()
    );
    Ok(())
}
