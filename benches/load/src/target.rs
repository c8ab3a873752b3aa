//! The broker to measure: a running one at `--address`, or a child process that the bench starts.

use lease_broker::cli::{AuthorizedChannel, CommandError, CredentialArgs, open_store};
use lease_broker::config::{Config, StoreKind};
use lease_broker_model::item_state::State;
use lease_broker_store::QueueIndex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::TargetArgs;
use crate::child_broker::{ChildBroker, StatementCounts, default_program};
use crate::process_stats::Watch;
use crate::result::Result;
use crate::temporary_queues::{TemporaryQueues, queue_names, read_config};

/// File descriptors that a process needs besides its connections.
const OTHER_OPEN_FILES: u64 = 256;

/// The broker to measure.
pub(crate) struct Target {
    address: String,
    credentials: CredentialArgs,
    pub(crate) queues: Vec<String>,
    /// The text column that new items set.
    pub(crate) column: String,
    pub(crate) watch: Watch,
    /// `None`: the broker at `--address`.
    child: Option<Child>,
}

struct Child {
    broker: ChildBroker,
    config: Config,
    counts_before: StoreCounts,
    /// `None`: the queues of `--config`. They are removed after the broker has ended.
    _temporary: Option<TemporaryQueues>,
}

/// Results that are known after the broker has ended. Empty for a broker at `--address`.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) statements: Option<StatementCounts>,
    /// The counts before and after the run.
    pub(crate) store_counts: Option<[StoreCounts; 2]>,
}

/// Numbers of items in the queues under load, read from the store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreCounts {
    /// Ready, leased or delayed.
    pub(crate) unfinished: u64,
    pub(crate) dead: u64,
}

impl Target {
    /// Starts the broker, unless it runs at `--address`.
    pub(crate) async fn open(args: &TargetArgs) -> Result<Self> {
        let named_queue = vec![args.queue.clone()];
        let column = args.column.clone();
        let (config_file, queues, temporary) = match (&args.address, &args.config) {
            (Some(address), _) => {
                return Ok(Self {
                    address: address.clone(),
                    credentials: args.credentials.clone(),
                    queues: named_queue,
                    column,
                    watch: Watch {
                        broker: args.broker_pid,
                        store_file: None,
                    },
                    child: None,
                });
            }
            (None, Some(file)) => (file.clone(), named_queue, None),
            (None, None) => {
                let temporary = TemporaryQueues::create(args)?;
                let config_file = temporary.config_file.clone();
                (config_file, queue_names(args), Some(temporary))
            }
        };
        let store_file = temporary.as_ref().map(|queues| &*queues.store_file);
        let config = read_config(&config_file, store_file)?;
        let program = args.broker.clone().unwrap_or_else(default_program);
        let broker = ChildBroker::start(&program, &config_file, store_file).await?;
        let scheme = config.server.tls.as_ref().map_or("http", |_| "https");
        let has_file = config.store.kind == StoreKind::Sqlite;
        Ok(Self {
            address: format!("{scheme}://{}", broker.address),
            credentials: args.credentials.clone(),
            column,
            watch: Watch {
                broker: Some(broker.pid),
                store_file: has_file.then(|| config.store.path.clone()),
            },
            child: Some(Child {
                broker,
                counts_before: StoreCounts::read(&config, &queues).await?,
                config,
                _temporary: temporary,
            }),
            queues,
        })
    }

    /// Returns the kind of store. `None`: unknown, as the broker runs at `--address`.
    pub(crate) fn store_kind(&self) -> Option<&'static str> {
        let child = self.child.as_ref()?;
        Some(match child.config.store.kind {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Mssql => "mssql",
        })
    }

    /// Opens connections to the broker.
    pub(crate) async fn connect(&self, connections: usize) -> Result<Vec<AuthorizedChannel>> {
        let bearer = self.credentials.bearer()?;
        let addresses = self.credentials.addresses(&self.address)?;
        let channels = addresses.connect_all(connections).await?;
        let authorize = |channel| bearer.authorize(channel);
        Ok(channels.into_iter().map(authorize).collect())
    }

    /// Stops the broker if the bench has started it, and counts the items of its store.
    pub(crate) async fn close(self) -> Result<Ended> {
        let Some(child) = self.child else {
            return Ok(Ended::default());
        };
        let statements = child.broker.stop().await?;
        let counts_after = StoreCounts::read(&child.config, &self.queues).await?;
        Ok(Ended {
            statements,
            store_counts: Some([child.counts_before, counts_after]),
        })
    }
}

impl StoreCounts {
    /// Counts the items of these queues, over a connection of this process.
    async fn read(config: &Config, queues: &[String]) -> Result<Self> {
        let store = open_store(config).await?;
        let mut counts = Self::default();
        for (index, queue) in config.queues.iter().enumerate() {
            if queues.contains(&queue.name) {
                let stats = store.reads().exact_stats(QueueIndex(index)).await?;
                for state in [State::Ready, State::Leased, State::Delayed] {
                    counts.unfinished += stats.count_of(state);
                }
                counts.dead += stats.count_of(State::Dead);
            }
        }
        Ok(counts)
    }
}

/// Raises the limit of open files, for this process and the broker that it starts, to hold this many connections.
pub(crate) fn raise_open_file_limit(connections: usize) -> Result<()> {
    let needed = connections as u64 + OTHER_OPEN_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        CommandError::usage(format!(
            "--connections {connections}: the limit of open files can't be raised to {needed}: {error}"
        ))
    })
}
