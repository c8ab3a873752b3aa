//! The configuration: what can be set, in the shape in which it is written. `deploy/config.default.toml` documents it.

mod duration;
mod layers;
mod queue;
mod store;

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;

pub use self::layers::{ConfigError, Flag, Sources};
use self::queue::QueueConfig;
pub use self::store::{Store, StoreKind};
use crate::queue::QueueSpec;

/// The default configuration file.
pub const DEFAULT: &str = include_str!("../deploy/config.default.toml");

/// Everything that can be set, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// How gRPC is served.
    pub server: Server,
    /// Where the leases are.
    pub store: Store,
    /// What a call may ask for.
    pub limits: Limits,
    /// How the store is polled while claims wait.
    pub polling: Polling,
    /// How leases expire.
    pub reaper: Reaper,
    /// What is logged.
    pub log: Log,
    /// The queues, by name.
    pub queues: Vec<QueueSpec>,
}

/// How gRPC is served.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The address and port.
    pub listen: SocketAddr,
    /// Threads that serve calls; 0: see [`Config::threads`].
    pub threads: usize,
    /// Calls under way at once.
    pub max_concurrent_calls: usize,
    /// The largest message, in bytes.
    pub max_message_bytes: usize,
    /// When a connection is asked to reconnect; zero: never.
    #[serde(with = "duration")]
    pub max_connection_age: Duration,
    /// How often a quiet connection is pinged.
    #[serde(with = "duration")]
    pub keepalive_interval: Duration,
    /// How long it may take to answer.
    #[serde(with = "duration")]
    pub keepalive_timeout: Duration,
    /// How long settlements are served on after a signal to stop.
    #[serde(with = "duration")]
    pub drain_delay: Duration,
    /// How long calls under way may take to finish after that.
    #[serde(with = "duration")]
    pub drain_grace: Duration,
}

/// What a call may ask for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Items a call.
    pub max_items: usize,
    /// How long a claim may wait.
    #[serde(with = "duration")]
    pub max_wait: Duration,
    /// Characters of a worker id.
    pub max_worker_id: usize,
}

/// How the store is polled while claims wait.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Polling {
    /// The first pause.
    #[serde(with = "duration")]
    pub min: Duration,
    /// The longest pause.
    #[serde(with = "duration")]
    pub max: Duration,
}

/// How leases expire.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reaper {
    /// The longest pause.
    #[serde(with = "duration")]
    pub max_sleep: Duration,
    /// Rows a statement.
    pub batch: usize,
}

/// What is logged.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// A level, or a list of targets with levels.
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// The file as it is written; [`Config`] is what it means.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    server: Server,
    store: Store,
    limits: Limits,
    polling: Polling,
    reaper: Reaper,
    log: Log,
    /// Merged into every queue before it is read; read here so that a bad default is named as such.
    queue_defaults: QueueConfig,
    queues: std::collections::BTreeMap<String, QueueConfig>,
}

/// A value that does not do: its key, and why.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    key: String,
    why: String,
}

impl Problem {
    fn new(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            why: why.into(),
        }
    }
}

impl Config {
    /// Returns how many threads serve calls: those configured, or one a core. `SQLite`'s writer is a thread of its own,
    /// which keeps a core busy when there is much to do: the calls have the others.
    pub fn threads(&self) -> usize {
        if self.server.threads > 0 {
            return self.server.threads;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        match self.store.kind {
            StoreKind::Sqlite => cores.saturating_sub(1).max(1),
            StoreKind::Mssql => cores,
        }
    }
}

fn at_most(key: &str, value: usize, most: usize) -> Result<(), Problem> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    let why = format!("{value} is not between 1 and {most}");
    Err(Problem::new(key, why))
}

fn between(key: &str, value: Duration, least: Duration, most: Duration) -> Result<(), Problem> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let [value, least, most] = [value, least, most].map(humantime::format_duration);
    let why = format!("{value} is not between {least} and {most}");
    Err(Problem::new(key, why))
}

impl Document {
    fn check(self) -> Result<Config, Problem> {
        at_most("limits.max_items", self.limits.max_items, 1_000)?;
        at_most("limits.max_worker_id", self.limits.max_worker_id, 128)?;
        at_most("reaper.batch", self.reaper.batch, 1_000)?;
        at_most("server.threads", self.server.threads.max(1), 1_024)?;
        at_most(
            "server.max_concurrent_calls",
            self.server.max_concurrent_calls,
            1 << 20,
        )?;
        at_most(
            "server.max_message_bytes",
            self.server.max_message_bytes,
            1 << 30,
        )?;
        let (milli, minute) = (Duration::from_millis(1), Duration::from_secs(60));
        between(
            "limits.max_wait",
            self.limits.max_wait,
            Duration::ZERO,
            minute,
        )?;
        between("polling.min", self.polling.min, milli, minute)?;
        between("polling.max", self.polling.max, self.polling.min, minute)?;
        between(
            "reaper.max_sleep",
            self.reaper.max_sleep,
            10 * milli,
            minute,
        )?;
        self.store.check()?;
        let day = Duration::from_secs(86_400);
        between(
            "server.keepalive_interval",
            self.server.keepalive_interval,
            100 * milli,
            day,
        )?;
        between(
            "server.keepalive_timeout",
            self.server.keepalive_timeout,
            100 * milli,
            day,
        )?;
        self.queue_defaults.check_defaults()?;
        if self.queues.is_empty() {
            return Err(Problem::new("queues", "at least one queue is needed"));
        }
        let queues = self
            .queues
            .into_iter()
            .map(|(name, queue)| queue.into_spec(&name))
            .collect::<Result<Vec<_>, _>>()?;
        for (at, queue) in queues.iter().enumerate() {
            let mut earlier = queues[..at].iter();
            if let Some(other) = earlier.find(|other| other.shares_rows_with(queue)) {
                return Err(Problem::new(
                    format!("queues.{}.table", queue.name),
                    format!(
                        "queue {:?} has the table {:?} already; two queues on one table need soft-lock columns of their \
                         own",
                        other.name, other.table
                    ),
                ));
            }
        }
        Ok(Config {
            server: self.server,
            store: self.store,
            limits: self.limits,
            polling: self.polling,
            reaper: self.reaper,
            log: self.log,
            queues,
        })
    }
}
