//! `serve`: runs the service. The code is in the order in which the service starts and stops.

mod layers;
mod memory_limit;
mod opening;
mod reload;
mod service_manager;

use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use futures_util::future::OptionFuture;
use lease_broker_model::text;
use lease_broker_store::{QueueIndex, Store, StoreError};
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{Signal, SignalKind};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use self::layers::{Drained, Layers, Parts};
use self::opening::{Next, Opened, Opening};
use super::CommandError;
use super::address_flag::address_flag;
use super::config_args::{ConfigArgs, open_store};
use super::environment::UnknownVariable;
use super::output::print_line;
use super::runtime::run;
use super::stop_requests::{StopRequests, stop_signal};
use crate::admin::{self, AdminPort};
use crate::broker::{Broker, LeaseOperations, Operation};
use crate::config::{Change, Config, Flag, OtelVariables, StoreKind};
use crate::logging::{self, Logging};
use crate::process::{self, Pauses};
use crate::security::{Security, Tokens};
use crate::telemetry::{SpanCounters, Telemetry};

/// Serve the configured queues over gRPC
///
/// Without a configuration it serves the queue `default`, which has one text column `payload`, from ./lease-broker.db on
/// 127.0.0.1:50051. On SIGTERM or SIGINT the service drains: it reports that it is not healthy, answers waiting claims,
/// and finishes the calls in flight. A second signal ends the process immediately. So does the first one while the service starts.
/// On SIGHUP it reads certificates, tokens and the configuration again. Identities, roles, queues, their limits and log.level take
/// effect, all or none of them; other settings need a restart.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker serve
  lease-broker serve --config queues.toml --listen 0.0.0.0:50051
  LEASE_BROKER_LOG__FORMAT=json lease-broker serve --store /var/lib/lease-broker.db")]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
    /// Address and port to listen on. Port 0 selects a free port [setting: server.listen]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Address and port of the admin port. "" turns it off [setting: admin.listen]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<String>,
    /// Log level: error, warn, info, debug, trace, or a list of targets with levels [setting: log.level]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

/// The files that the store `sqlite` has open, and those of all other parts besides connections of clients. The admin port takes up to
/// 164 of these.
const SQLITE_FILES: usize = 8;
const OTHER_FILES: usize = 192;
/// The time after which a store that is unavailable is opened again.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// The number of connections without which the service does not start.
const MIN_CONNECTIONS: usize = 16;

impl Serve {
    /// Serves until the service has drained. `unknown`: the environment variables that are probably mistyped.
    /// `lease_operations`: see [`BrokerConfig`](crate::broker::BrokerConfig).
    pub(super) fn run(
        self,
        unknown: &[UnknownVariable],
        lease_operations: LeaseOperations,
    ) -> Result<(), CommandError> {
        // A supervisor can send SIGHUP while the configuration is read. tokio keeps the signal until the service waits for it, also in
        // another runtime. SIGTERM and SIGINT end the process, which has opened nothing yet.
        let hangup = run(&mut Builder::new_current_thread(), async {
            stop_signal(SignalKind::hangup())
        })?;
        let config = self.config.load(self.flags())?;
        let logging = logging::start(&config.log).map_err(CommandError::usage)?;
        let mut runtime = Builder::new_multi_thread();
        let threads = config.threads();
        run(
            runtime.worker_threads(threads),
            self.serve(config, hangup, &logging, unknown, lease_operations),
        )
    }

    fn flags(&self) -> Vec<Flag> {
        let flags: [(_, &[_], _); 3] = [
            ("--listen", &["server", "listen"], &self.listen),
            ("--admin-listen", &["admin", "listen"], &self.admin_listen),
            ("--log-level", &["log", "level"], &self.log_level),
        ];
        let flags = flags.into_iter().filter_map(|(name, key, value)| {
            let value = value.as_deref()?.into();
            Some(Flag { name, key, value })
        });
        flags.collect()
    }
}

impl Serve {
    #[expect(
        clippy::too_many_lines,
        reason = "the order of the start and of the stop"
    )]
    async fn serve(
        &self,
        mut config: Config,
        mut hangup: Signal,
        logging: &Logging,
        unknown: &[UnknownVariable],
        lease_operations: LeaseOperations,
    ) -> Result<(), CommandError> {
        let started = SystemTime::now();
        let process = (Uuid::new_v4(), Instant::now());
        let security = Security::open(&config).map_err(CommandError::usage)?;
        limit_connections(&mut config)?;
        memory_limit::warn_if_exceeded(&config);
        log_unknown_variables(unknown);
        warn_of_unused_connection_string(&config);
        warn_of_missing_tokens(&config);
        let mut stop = StopRequests::listen()?;
        let pauses = Pauses::watch()
            .map_err(|error| CommandError::io(format!("cannot start a thread: {error}")))?;
        let telemetry = start_telemetry(&config, logging, process, &pauses, &security)?;
        log_otel_variables(&config.telemetry.otel_variables);
        // Opened before the store, so that it can report that the broker is starting.
        let started_broker = Arc::default();
        let pages = Pages {
            security: security.clone(),
            sessions: Arc::default(),
        };
        let state = admin_state(
            &config,
            &telemetry,
            &started_broker,
            logging,
            started,
            &pages,
        );
        let admin_port = start_admin_port(&config, state)?;
        let new_file = config.store.absolute_path().filter(|file| !file.exists());
        // A database that does not answer, or a long build of an index, does not stop the end of the service either.
        let stopped = CancellationToken::new();
        let mut opening = Box::pin(open_in_background(config.clone(), stopped.clone()));
        let (store, listener, example) = tokio::select! {
            opened = &mut opening => opened?,
            () = stop.next() => {
                tracing::info!("ended while it started");
                stopped.cancel();
                // Otherwise the thread meets a runtime that has ended. A thread that a SQLite file blocks is not waited for.
                let _ = tokio::time::timeout(STORE_PAUSE, opening).await;
                return Ok(());
            }
        };
        let location = store.location();
        let parts = Parts {
            config,
            store,
            security,
        };
        let mut layers = Layers::start(parts, None, telemetry, &listener, lease_operations)?;
        let _watch = AbortOnDropHandle::new(tokio::spawn(pages.security.clone().watch_files()));
        let _ = started_broker.set(layers.broker.clone());
        let address = layers.server.address();
        announce(&layers.config, &location, address, example.as_deref());
        if let Some(file) = new_file {
            print_line!("new file: {}", file.display());
        }
        if let Some(port) = &admin_port {
            let scheme = if layers.config.admin.tls {
                "https"
            } else {
                "http"
            };
            print_line!("admin port: {scheme}://{}", port.address());
        }

        let _watchdog = service_manager::ready();
        // Files and databases that do not answer stop neither the service nor its end.
        let mut loading: Option<JoinHandle<Result<Config, String>>> = None;
        let mut opening: Option<Opening> = None;
        let mut former = JoinSet::new();
        let mut is_told_to_drain = false;
        loop {
            let loaded = OptionFuture::from(loading.as_mut());
            let opened = OptionFuture::from(opening.as_mut());
            tokio::select! {
                error = layers.server.failed() => return Err(CommandError::io(error.to_string())),
                () = stop.next() => break,
                () = layers.broker.told_to_drain() => {
                    tracing::info!("an operator told this broker to drain");
                    is_told_to_drain = true;
                    break;
                }
                Some(()) = hangup.recv() => {
                    // An earlier configuration whose files do not answer must not keep this one from taking effect.
                    if loading.take().is_some() || opening.take().is_some() {
                        tracing::warn!("configuration is read again before the last reading has ended, which has no effect now");
                    }
                    let (serve, security) = (self.clone(), layers.security.clone());
                    loading = Some(tokio::spawn(async move {
                        let loaded = spawn_blocking(move || serve.load());
                        let ((), loaded) = tokio::join!(security.read_now(), loaded);
                        loaded.unwrap_or_else(|panicked| Err(panicked.to_string()))
                    }));
                }
                Some(loaded) = loaded => {
                    loading = None;
                    let loaded = loaded.unwrap_or_else(|panicked| Err(panicked.to_string()));
                    match loaded.and_then(|config| reload(config, &layers)) {
                        Ok(started) => opening = Some(started),
                        Err(problem) => report_refused(&problem, &layers),
                    }
                }
                Some(opened) = opened => {
                    opening = None;
                    let opened = opened.unwrap_or_else(|panicked| Err(CommandError::failed(panicked.to_string())));
                    let applied = opened.and_then(|Opened { changes, rules, next }| {
                        match next {
                            Next::Running(config) => {
                                layers.config = config;
                                layers.security.replace_rules(rules);
                            }
                            Next::New(parts) => {
                                let telemetry = start_telemetry(&parts.config, logging, process, &pauses, &parts.security)?;
                                let new = Layers::start(parts, rules, telemetry, &listener, lease_operations)?;
                                if let Some(port) = &admin_port {
                                    let broker = Arc::new(OnceLock::from(new.broker.clone()));
                                    let state = admin_state(&new.config, &new.telemetry, &broker, logging, started, &pages);
                                    port.show(state);
                                }
                                former.spawn(std::mem::replace(&mut layers, new).give_way());
                            }
                        }
                        Ok(changes)
                    });
                    match applied {
                        Ok(changes) => report_changed(logging, &layers, &changes),
                        Err(problem) => report_refused(&problem.to_string(), &layers),
                    }
                }
                Some(_) = former.join_next() => tracing::info!("layers of the former configuration have stopped"),
            }
        }
        service_manager::stopping();
        tracing::info!("draining; a second signal ends the process immediately");
        let second_signal = async {
            if is_told_to_drain {
                // A supervisor that stops the process now means this drain, and not the end of the running calls.
                stop.next().await;
                tracing::info!("the drain goes on; a second signal ends the process immediately");
            }
            stop.next().await;
        };
        let drained = async {
            let drained = layers.drain().await;
            while former.join_next().await.is_some() {}
            drained
        };
        tokio::select! {
            drained = drained => end(&drained),
            () = second_signal => Err(CommandError::failed("ended by a second signal")),
        }
    }

    fn load(&self) -> Result<Config, String> {
        let config = self.config.load(self.flags());
        let mut config = config.map_err(|error| error.to_string())?;
        limit_connections(&mut config).map_err(|error| error.to_string())?;
        Ok(config)
    }
}

/// Starts to apply a new configuration.
///
/// # Errors
/// The reason why it cannot be applied.
fn reload(config: Config, running: &Layers) -> Result<Opening, String> {
    let changes = running.config.settings.changes(&config.settings);
    let way = reload::way(&running.config, &changes)?;
    Ok(opening::start(config, changes, way, running))
}

/// Logs what a new configuration has changed. The level of the log takes effect, also if it was changed for a time only.
fn report_changed(logging: &Logging, layers: &Layers, changes: &[Change]) {
    // It has been checked.
    let _ = logging.level.set_configured(&layers.config.log.level);
    let not_in_use = not_in_use(layers);
    let mut lines = reload::lines(changes).into_iter();
    let changes = lines.next().unwrap_or_default();
    tracing::info!(
        target: "lease_broker::audit",
        event = "config.changed", changes, not_in_use, "configuration read again"
    );
    for changes in lines {
        tracing::info!(
            target: "lease_broker::audit",
            event = "config.changed", changes, "more changes of the configuration"
        );
    }
}

/// Logs that a new configuration has no effect.
fn report_refused(problem: &str, layers: &Layers) {
    let not_in_use = not_in_use(layers);
    tracing::error!(
        target: "lease_broker::audit",
        event = "config.refused", problem, not_in_use, "configuration not changed"
    );
}

/// Returns the files that are not used as they are. `None`: all are.
fn not_in_use(layers: &Layers) -> Option<String> {
    let files = layers.security.not_in_use();
    (!files.is_empty()).then(|| files.join("; "))
}

/// Logs the counts of the layers that have stopped last, and returns the result of the command.
fn end(drained: &Drained) -> Result<(), CommandError> {
    log_span_counts(drained.telemetry.span_counters());
    if drained.all_finished {
        tracing::info!("all calls have finished");
    }
    log_operation_counts(&drained.broker);
    drained.all_finished.then_some(()).ok_or_else(|| {
        CommandError::failed("ended calls that were still running after server.drain_grace")
    })
}

fn start_telemetry(
    config: &Config,
    logging: &Logging,
    process: (Uuid, Instant),
    pauses: &Arc<Pauses>,
    security: &Security,
) -> Result<Arc<Telemetry>, CommandError> {
    let telemetry = Telemetry::start(config, &logging.counters, process);
    let telemetry = telemetry.map_err(CommandError::usage)?;
    telemetry.observe_pauses(pauses.clone());
    telemetry.observe_security(security);
    Ok(Arc::new(telemetry))
}

/// The parts of a service that may have to be waited for. The last one is an item for the announcement, which is shorter without it.
type StartParts = (Arc<dyn Store>, TcpListener, Option<Vec<(String, String)>>);

/// Opens the store and the port, unless the start is stopped. A thread for blocking work does it, because a SQLite file blocks the thread
/// that opens it. Until the port is open nothing is served, so the process can end at any time.
async fn open_in_background(
    config: Config,
    stopped: CancellationToken,
) -> Result<StartParts, CommandError> {
    let open = async move || {
        let store = wait_for_store(&config).await?;
        let listener = bind(&config).await?;
        let example = store.example_item(QueueIndex(0)).await.ok().flatten();
        Ok((store, listener, example))
    };
    let open_unless_stopped = async move || {
        tokio::select! {
            biased;
            () = stopped.cancelled() => Err(CommandError::failed("ended while it started")),
            opened = open() => opened,
        }
    };
    let opened = spawn_blocking(move || Handle::current().block_on(open_unless_stopped())).await;
    opened.unwrap_or_else(|panicked| Err(CommandError::failed(panicked.to_string())))
}

/// Opens the store. Waits for a database server that cannot be used yet.
async fn wait_for_store(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    loop {
        match open_store(config).await {
            Err(StoreError::Unavailable(outage)) if config.store.kind == StoreKind::Mssql => {
                tracing::warn!(reason = %outage.reason, "the broker starts when the database can be used");
                tokio::time::sleep(STORE_PAUSE).await;
            }
            opened => return opened,
        }
    }
}

async fn bind(config: &Config) -> Result<TcpListener, CommandError> {
    let address = config.server.listen;
    let listener = tokio::net::TcpListener::bind(address).await;
    let listener = listener.and_then(tokio::net::TcpListener::into_std);
    listener.map_err(|error| {
        CommandError::io(format!(
            "cannot listen on {address}: {error}; choose another address with --listen"
        ))
    })
}

/// Lowers `server.max_connections` to the number of file descriptors that are left for connections. Otherwise connections
/// could take the descriptors that the store and the log need.
fn limit_connections(config: &mut Config) -> Result<(), CommandError> {
    let Some(limit) = process::max_file_descriptors() else {
        return Ok(());
    };
    let store = match config.store.kind {
        StoreKind::Sqlite => SQLITE_FILES,
        StoreKind::Mssql => config.store.max_connections,
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let left = limit.saturating_sub(OTHER_FILES + store);
    if left < MIN_CONNECTIONS {
        return Err(CommandError::usage(format!(
            "the process may open {limit} files, which leaves {left} for connections of clients; at least {MIN_CONNECTIONS} \
             are needed: raise the limit, for example with ulimit -n"
        )));
    }
    let wanted = config.server.max_connections;
    if left < wanted {
        tracing::warn!(
            wanted,
            used = left,
            open_files = limit,
            "server.max_connections is lowered"
        );
        config.server.max_connections = left;
    }
    Ok(())
}

/// Opens the admin port, unless the configuration turns it off.
fn start_admin_port(
    config: &Config,
    state: admin::AdminState,
) -> Result<Option<AdminPort>, CommandError> {
    admin::start(&config.admin, state).map_err(|error| {
        let address = config.admin.listen.map(|address| address.to_string());
        let address = address.unwrap_or_default();
        CommandError::io(format!(
            "cannot open the admin port on {address}: {error}; choose another address with --admin-listen"
        ))
    })
}

/// The parts of the dashboard that outlive a configuration, and those who may see it.
struct Pages {
    security: Security,
    sessions: Arc<admin::Sessions>,
}

/// Returns the state that the admin port shows. It shows the broker once `broker` is set.
fn admin_state(
    config: &Config,
    telemetry: &Arc<Telemetry>,
    broker: &Arc<OnceLock<Arc<Broker>>>,
    logging: &Logging,
    started: SystemTime,
    pages: &Pages,
) -> admin::AdminState {
    admin::AdminState {
        runtime: tokio::runtime::Handle::current(),
        access: pages.security.access.clone(),
        tls: pages.security.tls.clone().filter(|_| config.admin.tls),
        token_header: config.admin.token_header.clone(),
        sessions: pages.sessions.clone(),
        allows_changes: config.admin.allows_changes(),
        trace_url: config.admin.trace_url.clone(),
        started,
        store: config.store.kind,
        database_file: config.store.absolute_path(),
        queues: config.queues.clone(),
        broker: broker.clone(),
        pulse: admin::Pulse::start(),
        telemetry: telemetry.clone(),
        scrape: Arc::default(),
        log_level: logging.level.clone(),
    }
}

/// Logs the number of calls, store statements and items of each operation since the start. Several calls can share one
/// statement.
fn log_operation_counts(broker: &Broker) {
    let [claim, heartbeat, settle, enqueue, reap, other] =
        Operation::ALL.map(|operation| broker.operation_count(operation));
    tracing::info!(
        claim_calls = claim.calls,
        claim_statements = claim.statements,
        claim_items = claim.items,
        heartbeat_calls = heartbeat.calls,
        heartbeat_statements = heartbeat.statements,
        heartbeat_items = heartbeat.items,
        settle_calls = settle.calls,
        settle_statements = settle.statements,
        settle_items = settle.items,
        enqueue_calls = enqueue.calls,
        enqueue_statements = enqueue.statements,
        enqueue_items = enqueue.items,
        reap_statements = reap.statements,
        reap_items = reap.items,
        other_statements = other.statements,
        other_items = other.items,
        "operation_counts"
    );
}

/// Logs what became of the spans.
fn log_span_counts(spans: &SpanCounters) {
    tracing::info!(
        emitted = spans.emitted(),
        exported = spans.exported(),
        failed = spans.failed(),
        dropped = spans.dropped(),
        "spans at the end"
    );
}

/// Warns if the configuration has a connection string for SQL Server, and the store is `SQLite`. A file of one may be missing, as
/// that of the systemd unit.
fn warn_of_unused_connection_string(config: &Config) {
    let store = &config.store;
    if store.kind == StoreKind::Sqlite && store.has_connection_string() {
        tracing::warn!(
            path = %store.path.display(),
            "connection string has no effect: set store.kind = \"mssql\" to use it"
        );
    }
}

/// Warns of identities whose token is in no line of `auth.tokens_file`.
fn warn_of_missing_tokens(config: &Config) {
    let Some(auth) = &config.auth else { return };
    let Some(path) = &auth.tokens_file else {
        return;
    };
    let tokens = std::fs::read_to_string(path).unwrap_or_default();
    let Ok(tokens) = Tokens::parse(&tokens) else {
        return;
    };
    for identity in &auth.identities {
        if let Some(token) = &identity.token
            && !tokens.iter().any(|line| line.name == *token)
        {
            tracing::warn!(
                identity = identity.name,
                "auth.tokens_file has no token for the identity, so no caller has it: lease-broker token new makes one"
            );
        }
    }
}

/// Logs the environment variables that are probably mistyped.
fn log_unknown_variables(unknown: &[UnknownVariable]) {
    for UnknownVariable { name, similar } in unknown {
        tracing::warn!(
            variable = name,
            similar,
            "unknown environment variable has no effect"
        );
    }
}

/// Logs which environment variables of OpenTelemetry take effect.
fn log_otel_variables(variables: &OtelVariables) {
    for (variable, reason) in &variables.ignored {
        tracing::warn!(variable, %reason, "environment variable ignored");
    }
    if !variables.used.is_empty() {
        let names = variables.used.join(" ");
        tracing::info!(names, "environment variables of OpenTelemetry used");
    }
}

/// Prints the address of the service and commands to try. `example` is an item of the first queue. `None`: no item is known
/// that its table accepts.
fn announce(
    config: &Config,
    location: &str,
    address: std::net::SocketAddr,
    example: Option<&[(String, String)]>,
) {
    let names: Vec<&str> = config
        .queues
        .iter()
        .map(|queue| queue.name.as_str())
        .collect();
    print_line!(
        "lease-broker {} listens on {address}, queues in {location}: {}",
        env!("CARGO_PKG_VERSION"),
        names.join(", ")
    );
    let Some(queue) = config.queues.first() else {
        return;
    };
    let scheme = config.server.tls.as_ref().map_or("http", |_| "https");
    let address_flag = address_flag(scheme, &address.to_string());
    let name = text::shell_word(&queue.name);
    let claim = format!("lease-broker claim {name}{address_flag}");
    let Some(example) = example else {
        print_line!("try:  {claim}");
        return;
    };
    let columns = example.iter();
    let columns: Vec<String> = columns
        .map(|(column, value)| format!("--set {}", text::shell_word(&format!("{column}={value}"))))
        .collect();
    let columns = columns.join(" ");
    print_line!("try:  lease-broker enqueue {name}{address_flag} {columns}");
    print_line!("      {claim}");
}
