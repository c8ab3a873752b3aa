//! The demo's table and the broker that serves it, both in the process of the `demo` command.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_broker_model::item_state::State;
use lease_broker_store::schema::Schema as _;
use lease_broker_store::sqlite::{SqliteSchema, SqliteStore, system_clock};
use lease_broker_store::{QueueIndex, Stats, Store as _, StoreError};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::args::Demo;
use super::table;
use crate::broker::{self, Broker};
use crate::cli::CommandError;
use crate::cli::output::print_line;
use crate::config::{Config, Sources};
use crate::grpc::{self, RunningServer};

/// The interval at which the demo reads the state of the table.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The demo fails if for this time, plus ten lease durations, no row is completed and no result is transferred.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The keys of the leased rows, by the name of the worker that holds the leases.
pub(super) type LeasedKeys = BTreeMap<String, HashSet<String>>;

/// A broker on the demo's table, with direct access to the store for reading.
pub(super) struct DemoService {
    file: PathBuf,
    /// Number of rows inserted into the table so far.
    events: u32,
    store: Arc<SqliteStore>,
    broker: Arc<Broker>,
    serving: RunningServer,
}

impl DemoService {
    /// Creates the table as another program would, adopts it as a queue, and serves it on a free port.
    pub(super) async fn start(demo: &Demo, folder: &TempDir) -> Result<Self, CommandError> {
        let file = match &demo.database {
            None => folder.path().join("rainfall.db"),
            Some(kept) if kept.exists() => {
                return Err(CommandError::usage(format!(
                    "--database {}: the file exists; name a new file",
                    kept.display()
                )));
            }
            Some(kept) => kept.clone(),
        };
        table::create(&file)?;
        table::insert_events(&file, 1..=demo.events)?;
        print_line!(
            "created the ordinary table Rainfall_Events with {} rows",
            demo.events
        );
        let config = load_config(demo, folder)?;
        adopt(&file, &config)?;
        let store = Arc::new(SqliteStore::open(&file, &config.queues, system_clock())?);
        let settings = broker::BrokerConfig::from(&config);
        let broker = Arc::new(Broker::start(store.clone(), &config.queues, settings));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(|error| CommandError::io(format!("cannot listen on 127.0.0.1: {error}")))?;
        let serving = grpc::serve(listener, broker.clone(), &config)
            .map_err(|error| CommandError::io(error.to_string()))?;
        print_line!("serving the queue on {}\n", serving.address());
        Ok(Self {
            file,
            events: demo.events,
            store,
            broker,
            serving,
        })
    }

    /// Returns the address that the broker listens on.
    pub(super) fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    /// Returns the path of the database file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the number of rows inserted into the table so far.
    pub(super) fn events(&self) -> u64 {
        self.events.into()
    }

    /// Returns the exact item counts of the table and of the outbox.
    ///
    /// The table is read first. A completion adds its result to the outbox in the same transaction, so if all rows are
    /// completed, no result can be missing from the outbox counts.
    pub(super) async fn stats(&self) -> Result<(Stats, Stats), CommandError> {
        let events = read(async || self.store.reads().exact_stats(table::EVENTS).await).await?;
        let outbox = read(async || self.store.reads().exact_stats(table::OUTBOX).await).await?;
        Ok((events, outbox))
    }

    /// Returns the keys of the leased rows of the table, by worker.
    pub(super) async fn leased_keys(&self) -> Result<LeasedKeys, CommandError> {
        /// More than 64 workers with 1,000 rows each can lease.
        const MAX_LEASED: usize = 100_000;

        let list = async || {
            self.store
                .reads()
                .list(table::EVENTS, State::Leased, MAX_LEASED)
                .await
        };
        let mut keys = LeasedKeys::new();
        for item in read(list).await? {
            let owner = item.owner.unwrap_or_default();
            keys.entry(owner).or_default().insert(item.key.to_string());
        }
        Ok(keys)
    }

    /// Inserts rows into the table, enough for `workers` workers to be busy for several batches. Returns their number.
    pub(super) async fn add_events(
        &mut self,
        batch: u32,
        workers: u32,
    ) -> Result<u32, CommandError> {
        let added = (4 * batch * workers).max(1_000);
        let (file, first) = (self.file.clone(), self.events + 1);
        let last = self.events + added;
        let insert = move || table::insert_events(&file, first..=last);
        let inserted = tokio::task::spawn_blocking(insert).await;
        inserted.map_err(|error| CommandError::failed(format!("demo: FAILED {error}")))??;
        self.events = last;
        Ok(added)
    }

    /// Drains the service and stops the broker.
    pub(super) async fn stop(self) {
        self.serving.drain().await;
        self.broker.stop().await;
    }
}

/// Reads from the store. If the store is unavailable, tries again for [`STALL_TIMEOUT`].
async fn read<T>(
    mut operation: impl AsyncFnMut() -> Result<T, StoreError>,
) -> Result<T, CommandError> {
    let start = Instant::now();
    loop {
        match operation().await {
            Err(StoreError::Unavailable(_)) if start.elapsed() < STALL_TIMEOUT => {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            outcome => return Ok(outcome?),
        }
    }
}

/// Returns the path of the configuration file.
pub(super) fn config_file(folder: &TempDir) -> PathBuf {
    folder.path().join("demo.toml")
}

fn load_config(demo: &Demo, folder: &TempDir) -> Result<Config, CommandError> {
    let file = config_file(folder);
    std::fs::write(&file, table::config_text(demo.lease, demo.keep))
        .map_err(|error| CommandError::io(format!("{}: {error}", file.display())))?;
    let sources = Sources {
        file: Some(file),
        ..Sources::default()
    };
    let config = sources.load();
    config.map_err(|error| CommandError::usage(format!("--lease: {}", error.reason)))
}

fn adopt(file: &Path, config: &Config) -> Result<(), CommandError> {
    let mut schema = SqliteSchema::open(file)?;
    let QueueIndex(events) = table::EVENTS;
    let steps = schema.plan(&config.queues[events])?;
    for step in &steps {
        schema.apply(step, &mut |_| ())?;
    }
    print_line!(
        "adopted the table as a queue by {} schema changes",
        steps.len()
    );
    Ok(())
}
