//! The configuration of the broker: its settings as types, read from defaults, a file, the environment and flags.
//!
//! `deploy/config.default.toml` holds every setting with its default and its documentation. [`Sources::load`] merges
//! the sources, checks the result, and names the file and line, the variable or the flag of a setting that cannot be
//! used.

mod address;
mod admin;
mod auth;
mod changes;
mod collector_address;
mod duration;
mod error;
mod groups;
mod jwt;
mod layer;
mod locate;
mod otel_variables;
mod plain_words;
mod queue;
mod queue_check;
mod queue_columns;
mod range;
mod sources;
mod store;
mod telemetry;
mod this_host;
mod tls;
mod variables;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lease_broker_model::queue::{OnComplete, QueueSpec};
use serde::Deserialize;

pub use self::admin::Admin;
pub use self::auth::{Auth, Identity, IdentityLimits, LeaseScope, Role};
pub use self::changes::{Change, ChangeKind, Settings};
pub use self::error::ConfigError;
use self::error::InvalidSetting;
pub use self::jwt::Jwt;
pub use self::layer::Flag;
pub use self::otel_variables::{OtelVariables, pairs};
use self::queue::QueueConfig;
pub(crate) use self::queue_check::MAX_KEY_COLUMNS;
pub(crate) use self::range::duration_text;
use self::range::{DAY, MILLISECOND, MINUTE, check_between, check_count, check_duration};
pub use self::sources::{Sources, is_setting};
pub use self::store::{Store, StoreKind};
pub use self::telemetry::{Destination, OtlpProtocol, PerQueue, Signal, Telemetry};
pub(crate) use self::this_host::is_this_host;
pub(crate) use self::tls::is_trust_domain;
pub use self::tls::{ClientCertificates, Tls, TlsVersion};
pub use self::variables::{SETTING_SEPARATOR, VARIABLE_PREFIX, setting_variables};

/// The text of the default configuration file, `deploy/config.default.toml`.
pub const DEFAULT: &str = include_str!("../deploy/config.default.toml");

/// All settings of a broker, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The gRPC server.
    pub server: Server,
    /// Identities and roles. `None`: every caller may do everything, and only programs of this host can call.
    pub auth: Option<Auth>,
    /// The database that holds the queues' tables.
    pub store: Store,
    /// Upper limits of the values in a call.
    pub limits: Limits,
    /// Budgets of memory.
    pub budgets: Budgets,
    /// Intervals of the queries for ready items while claims wait.
    pub polling: Polling,
    /// The task that ends expired leases.
    pub reaper: Reaper,
    /// The log on standard error.
    pub log: Log,
    /// The HTTP port for probes, metrics and operators.
    pub admin: Admin,
    /// Traces and metrics.
    pub telemetry: Telemetry,
    /// The queues, sorted by name.
    pub queues: Vec<QueueSpec>,
    /// The merged settings of all sources.
    pub settings: Settings,
}

impl Config {
    /// Returns the number of threads that serve calls: the setting, or a default derived from the number of cores.
    ///
    /// With SQL Server the default is one thread per core. With `SQLite` it is one less, at least 1. The `SQLite` store
    /// writes on a thread that can keep one core busy.
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

/// Settings of the gRPC server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The IP address and port to listen on. `localhost` is 127.0.0.1. Port 0 selects a free port.
    #[serde(deserialize_with = "address::deserialize")]
    pub listen: SocketAddr,
    /// TLS. `None`: plain text.
    pub tls: Option<Tls>,
    /// The addresses on which the server listens without TLS.
    pub plain_text: PlainText,
    /// Whether the server offers the reflection service.
    pub reflection: Reflection,
    /// The number of threads that serve calls. 0 selects the default of [`Config::threads`].
    pub threads: usize,
    /// The maximum number of connections. 1 to 1,048,576.
    pub max_connections: usize,
    /// Addresses of proxies, whose connections carry the calls of many clients.
    pub trusted_proxies: Vec<IpAddr>,
    /// The maximum number of calls that a connection can have open. 1 to 1,048,576.
    pub max_streams: usize,
    /// The maximum size of a request, and approximately of a response, in bytes. 1 to 2^30.
    pub max_message_bytes: usize,
    /// The maximum size of the headers of a request, in bytes. 1,024 to 2^20.
    pub max_header_bytes: usize,
    /// The time limit from the acceptance of a connection to its HTTP/2 preface. 100 ms to 60 s.
    #[serde(with = "duration")]
    pub handshake_timeout: Duration,
    /// The maximum number of TLS handshakes that begin per second. Greater than 0.
    pub handshakes_per_second: NonZeroU32,
    /// The time limit from the headers of a request to its last byte. 100 ms to 1 hour.
    #[serde(with = "duration")]
    pub request_timeout: Duration,
    /// The time limit for a client to take a response. 100 ms to 1 hour.
    #[serde(with = "duration")]
    pub response_timeout: Duration,
    /// The age at which a client is asked to reconnect, changed at random by up to a tenth. Zero: never. At most 365 days.
    #[serde(with = "duration")]
    pub max_connection_age: Duration,
    /// The time after which a connection without calls is closed. Zero: never. At most 365 days.
    #[serde(with = "duration")]
    pub max_connection_idle: Duration,
    /// The time from the request to reconnect until the connection is closed. At most 365 days.
    #[serde(with = "duration")]
    pub max_connection_age_grace: Duration,
    /// The interval of HTTP/2 pings on a connection without traffic. 100 ms to 1 day.
    #[serde(with = "duration")]
    pub keepalive_interval: Duration,
    /// The time limit for the answer to a ping. After it the connection is closed. 100 ms to 1 day.
    #[serde(with = "duration")]
    pub keepalive_timeout: Duration,
    /// The time after a stop signal during which all calls are still served.
    #[serde(with = "duration")]
    pub drain_delay: Duration,
    /// The time limit, after `drain_delay`, for running calls to finish.
    #[serde(with = "duration")]
    pub drain_grace: Duration,
}

/// The addresses on which the server listens without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlainText {
    /// Only those of this host.
    Loopback,
    /// All addresses. The network is trusted, or a proxy terminates TLS.
    Anywhere,
}

/// Whether the server offers the reflection service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reflection {
    /// To every caller with a role.
    On,
    /// To no caller.
    Off,
}

/// Upper limits of the values in a call.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The maximum number of items per call. 1 to 1,000.
    pub max_items: usize,
    /// The longest time that a claim can wait for an item. At most 60 s.
    #[serde(with = "duration")]
    pub max_wait: Duration,
    /// The maximum length of a worker id, in characters. 1 to 128.
    pub max_worker_id: usize,
    /// The largest size of an item, in bytes. A claim makes a larger item dead. 65,536 to 2^30.
    pub max_item_bytes: usize,
}

/// Budgets of memory and of calls, over all connections.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    /// The calls that end or extend leases and run at the same time. 1 to 1,048,576.
    pub settlements: usize,
    /// The calls that start work and run at the same time, waiting claims excepted. 1 to 1,048,576.
    pub working_calls: usize,
    /// The claims that wait for an item. 1 to 1,048,576.
    pub waiting_claims: usize,
    /// The requests that have arrived in part. One connection gets an eighth. 8 to 1,048,576.
    pub incomplete_requests: usize,
    /// The bytes of requests. A quarter is kept for calls that end or extend leases. 16 MiB to 1 TiB.
    pub request_bytes: usize,
    /// The bytes of responses that have not been sent yet. A quarter is kept for calls that end or extend leases. 16 MiB to 1 TiB.
    pub response_bytes: usize,
    /// The calls whose responses have not been sent yet, health checks excepted. 1 to 1,048,576.
    pub open_streams: usize,
    /// The health checks that run at the same time. 1 to 1,048,576.
    pub health_checks: usize,
    /// The clients that watch the health. 1 to 1,048,576.
    pub health_watchers: usize,
    /// The open streams of the reflection service. 1 to 1,048,576.
    pub reflection_streams: usize,
}

/// Intervals of the queries for ready items while claims wait.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Polling {
    /// The first interval. 1 ms to 60 s.
    #[serde(with = "duration")]
    pub min_interval: Duration,
    /// The longest interval. `min_interval` to 60 s.
    #[serde(with = "duration")]
    pub max_interval: Duration,
}

/// Settings of the reaper, the task that ends expired leases and makes delayed items ready.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reaper {
    /// The longest interval between two runs. 10 ms to 60 s.
    #[serde(with = "duration")]
    pub max_interval: Duration,
    /// The maximum number of rows that one statement changes. 1 to 1,000.
    pub max_rows: usize,
}

/// Settings of the log.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// A level such as `info`, or a list of targets with levels such as `info,lease_broker=debug`.
    pub level: String,
    /// The format of log lines.
    pub format: LogFormat,
    /// A file for the lines of the audit. Empty: there is none.
    pub audit_file: PathBuf,
}

impl Log {
    /// Refuses a file that has other content. `configuration`: the file of the configuration.
    fn check(&self, configuration: Option<&Path>, store: &Store) -> Result<(), InvalidSetting> {
        let database = store.absolute_path();
        for (other, name) in [
            (configuration, "the configuration file"),
            (database.as_deref(), "the database file"),
        ] {
            if other.is_some_and(|other| is_same_file(&self.audit_file, other)) {
                let reason = format!("{} is {name}", self.audit_file.display());
                return Err(InvalidSetting::new("log.audit_file", reason));
            }
        }
        Ok(())
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    if one.as_os_str().is_empty() {
        return false;
    }
    match [one, other].map(std::fs::canonicalize) {
        [Ok(one), Ok(other)] => one == other,
        _ => std::path::absolute(one).ok() == std::path::absolute(other).ok(),
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people, with colours on a terminal.
    Human,
    /// One JSON object per line.
    Json,
}

/// The merged settings, deserialized but not yet checked. [`Document::check`] returns the [`Config`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    server: Server,
    auth: Option<Auth>,
    store: Store,
    limits: Limits,
    budgets: Budgets,
    polling: Polling,
    reaper: Reaper,
    log: Log,
    admin: Admin,
    telemetry: Telemetry,
    /// The loader has already merged these settings into every queue. They are read here once more so that an error in
    /// them has the key `queue_defaults`.
    queue_defaults: QueueConfig,
    queues: BTreeMap<String, QueueConfig>,
}

impl Document {
    /// Checks all settings and converts the queues.
    fn check(self) -> Result<Config, InvalidSetting> {
        self.server.check()?;
        self.check_auth()?;
        if self.admin.tls && self.server.tls.is_none() {
            let reason = "needs the section [server.tls], whose certificate the admin port uses";
            return Err(InvalidSetting::new("admin.tls", reason));
        }
        if self.admin.token_header.is_some() && self.auth.is_none() {
            let reason = "needs the section [auth], which knows the issuer of the tokens";
            return Err(InvalidSetting::new("admin.token_header", reason));
        }
        self.admin.check()?;
        self.store.check()?;
        self.limits.check()?;
        self.budgets.check()?;
        self.polling.check()?;
        self.reaper.check()?;
        self.telemetry.check()?;
        self.queue_defaults.check_defaults()?;
        if self.queues.is_empty() {
            return Err(InvalidSetting::new(
                "queues",
                "no queue is configured; add a section [queues.NAME]",
            ));
        }
        let sizes = (self.limits.max_item_bytes, self.server.max_message_bytes);
        let mut queues = self
            .queues
            .into_iter()
            .map(|(name, queue)| queue.into_spec(&name, sizes))
            .collect::<Result<Vec<_>, _>>()?;
        let canonical = match self.store.kind {
            StoreKind::Sqlite => str::to_ascii_lowercase,
            StoreKind::Mssql => canonical_table_of_server,
        };
        check_shared_tables(&queues, canonical)?;
        check_archives(&queues, canonical)?;
        tell_shared_tables(&mut queues, canonical);
        Ok(Config {
            server: self.server,
            auth: self.auth,
            store: self.store,
            limits: self.limits,
            budgets: self.budgets,
            polling: self.polling,
            reaper: self.reaper,
            log: self.log,
            admin: self.admin,
            telemetry: self.telemetry,
            queues,
            settings: Settings::default(),
        })
    }
}

impl Document {
    /// Checks identities and roles. Without them, only programs of this host may call.
    fn check_auth(&self) -> Result<(), InvalidSetting> {
        let listen = self.server.listen;
        let Some(auth) = &self.auth else {
            if listen.ip().to_canonical().is_loopback() {
                return Ok(());
            }
            return Err(InvalidSetting::new(
                "server.listen",
                format!(
                    "programs of other hosts can call {listen}, and every caller may do everything; add the section [auth] \
                     with identities, or with anonymous = [\"admin\"] if every caller may do everything"
                ),
            ));
        };
        let tls = self.server.tls.as_ref();
        auth.check(tls.is_some_and(|tls| tls.client_certificates() != ClientCertificates::Off))
    }
}

impl Server {
    fn check(&self) -> Result<(), InvalidSetting> {
        let is_loopback = self.listen.ip().to_canonical().is_loopback();
        match &self.tls {
            Some(tls) => tls.check()?,
            None if is_loopback || self.plain_text == PlainText::Anywhere => {}
            None => {
                let listen = self.listen;
                return Err(InvalidSetting::new(
                    "server.listen",
                    format!(
                        "calls to {listen} would cross the network without encryption; add the section [server.tls], or set \
                         server.plain_text = \"anywhere\" if the network is trusted"
                    ),
                ));
            }
        }
        check_between("server.threads", self.threads, 0, 1_024)?;
        for (key, value, max) in [
            ("max_connections", self.max_connections, 1 << 20),
            ("max_streams", self.max_streams, 1 << 20),
            ("max_message_bytes", self.max_message_bytes, 1 << 30),
        ] {
            check_count(format!("server.{key}"), value, max)?;
        }
        for (key, value) in [
            ("keepalive_interval", self.keepalive_interval),
            ("keepalive_timeout", self.keepalive_timeout),
        ] {
            check_duration(format!("server.{key}"), value, 100 * MILLISECOND, DAY)?;
        }
        for (key, value, max) in [
            ("handshake_timeout", self.handshake_timeout, MINUTE),
            ("request_timeout", self.request_timeout, 60 * MINUTE),
            ("response_timeout", self.response_timeout, 60 * MINUTE),
        ] {
            check_duration(format!("server.{key}"), value, 100 * MILLISECOND, max)?;
        }
        for (key, value) in [
            ("max_connection_age", self.max_connection_age),
            ("max_connection_idle", self.max_connection_idle),
            ("max_connection_age_grace", self.max_connection_age_grace),
        ] {
            check_duration(format!("server.{key}"), value, Duration::ZERO, 365 * DAY)?;
        }
        let key = "server.max_header_bytes";
        check_between(key, self.max_header_bytes, 1_024, 1 << 20)
    }
}

impl Limits {
    fn check(&self) -> Result<(), InvalidSetting> {
        check_count("limits.max_items", self.max_items, 1_000)?;
        check_count("limits.max_worker_id", self.max_worker_id, 128)?;
        check_between(
            "limits.max_item_bytes",
            self.max_item_bytes,
            1 << 16,
            1 << 30,
        )?;
        check_duration("limits.max_wait", self.max_wait, Duration::ZERO, MINUTE)
    }
}

impl Budgets {
    fn check(self) -> Result<(), InvalidSetting> {
        for (key, value, min, max) in [
            ("settlements", self.settlements, 1, 1 << 20),
            ("working_calls", self.working_calls, 1, 1 << 20),
            ("waiting_claims", self.waiting_claims, 1, 1 << 20),
            ("incomplete_requests", self.incomplete_requests, 8, 1 << 20),
            ("request_bytes", self.request_bytes, 16 << 20, 1 << 40),
            ("response_bytes", self.response_bytes, 16 << 20, 1 << 40),
            ("open_streams", self.open_streams, 1, 1 << 20),
            ("health_checks", self.health_checks, 1, 1 << 20),
            ("health_watchers", self.health_watchers, 1, 1 << 20),
            ("reflection_streams", self.reflection_streams, 1, 1 << 20),
        ] {
            check_between(format!("budgets.{key}"), value, min, max)?;
        }
        Ok(())
    }
}

impl Polling {
    fn check(&self) -> Result<(), InvalidSetting> {
        check_duration(
            "polling.min_interval",
            self.min_interval,
            MILLISECOND,
            MINUTE,
        )?;
        check_duration(
            "polling.max_interval",
            self.max_interval,
            self.min_interval,
            MINUTE,
        )
        .map_err(|invalid| invalid.in_conflict_with("polling.min_interval"))
    }
}

impl Reaper {
    fn check(&self) -> Result<(), InvalidSetting> {
        check_count("reaper.max_rows", self.max_rows, 1_000)?;
        let min = 10 * MILLISECOND;
        check_duration("reaper.max_interval", self.max_interval, min, MINUTE)
    }
}

/// Tells each queue the soft-lock columns of the other queues over its table. `canonical` returns the same text for each spelling of a
/// table's name.
fn tell_shared_tables(queues: &mut [QueueSpec], canonical: fn(&str) -> String) {
    let all = queues.to_vec();
    for queue in queues {
        let table = canonical(&queue.table);
        for other in &all {
            if other.name != queue.name && canonical(&other.table) == table {
                queue.soft_lock.add_other(other);
            }
        }
    }
}

/// Returns the same text for each spelling of the name of a table on a server: without brackets, in lower case, and without the
/// schema `dbo`.
fn canonical_table_of_server(name: &str) -> String {
    let name = name.replace(['[', ']'], "").to_lowercase();
    name.strip_prefix("dbo.").unwrap_or(&name).to_owned()
}

/// Refuses two queues that would write their leases into the same columns of the same table. `canonical` returns the same text for
/// each spelling of a table's name.
fn check_shared_tables(
    queues: &[QueueSpec],
    canonical: fn(&str) -> String,
) -> Result<(), InvalidSetting> {
    for (index, queue) in queues.iter().enumerate() {
        let table = canonical(&queue.table);
        let mut earlier = queues[..index].iter();
        let shared = earlier
            .find(|other| canonical(&other.table) == table && other.shares_columns_with(queue));
        if let Some(other) = shared {
            return Err(InvalidSetting::new(
                format!("queues.{}.table", queue.name),
                format!(
                    "queue {:?} has the table {:?} already; give one of the two queues other soft-lock columns \
                     (section soft_lock)",
                    other.name, other.table
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses an archive that is the table of a queue, and one from which a queue would delete the rows of another.
fn check_archives(
    queues: &[QueueSpec],
    canonical: fn(&str) -> String,
) -> Result<(), InvalidSetting> {
    let archive = |queue: &QueueSpec| match &queue.on_complete {
        OnComplete::Archive(archive) => Some(canonical(archive)),
        _ => None,
    };
    for (index, queue) in queues.iter().enumerate() {
        let Some(name) = archive(queue) else {
            continue;
        };
        let path = format!("queues.{}.on_complete.archive", queue.name);
        let mut all = queues.iter();
        if let Some(other) = all.find(|other| canonical(&other.table) == name) {
            let reason = format!("is the table of queue {:?}; name another table", other.name);
            return Err(InvalidSetting::new(path, reason));
        }
        let deletes = |queue: &QueueSpec| queue.keep_for.archive.is_some();
        let shared = queues[..index].iter().find(|other| {
            archive(other).as_ref() == Some(&name) && (deletes(other) || deletes(queue))
        });
        if let Some(other) = shared {
            let reason = format!(
                "is the archive of queue {:?} too, and keep_for.archive of one deletes the rows of both; name another table",
                other.name
            );
            return Err(InvalidSetting::new(path, reason));
        }
    }
    Ok(())
}
