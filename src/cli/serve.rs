//! `serve`: runs the service. The code is in the order in which the service starts and stops.

mod memory_limit;

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use clap::Args;
use lease_broker_store::QueueIndex;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::CommandError;
use super::config_args::{ConfigArgs, open_store};
use super::environment::UnknownVariable;
use super::output::print_line;
use super::runtime::run;
use crate::admin::{self, AdminPort};
use crate::broker::{self, Broker, LeaseOperations, Operation};
use crate::config::{Config, Flag, OtelVariables, StoreKind};
use crate::grpc;
use crate::logging::{self, LogLevel, Logging};
use crate::process;
use crate::security::Security;
use crate::telemetry::{SpanCounters, Telemetry};

/// Serve the configured queues over gRPC
///
/// Without a configuration it serves the queue `default`, which has one text column `payload`, from ./lease-broker.db on
/// 127.0.0.1:50051. On SIGTERM or SIGINT the service drains: it reports that it is not healthy, answers waiting claims,
/// and finishes the calls in flight. A second signal ends the process immediately. On SIGHUP it reads log.level, certificates and
/// tokens again.
#[derive(Debug, Args)]
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

/// The files that the store `sqlite` has open, and those of all other parts besides connections of clients.
const SQLITE_FILES: usize = 8;
const OTHER_FILES: usize = 192;
/// The number of connections without which the service does not start.
const MIN_CONNECTIONS: usize = 16;

impl Serve {
    /// Serves until the service has drained. `unknown`: the environment variables that are probably mistyped.
    /// `lease_operations`: see [`broker::BrokerConfig`].
    pub(super) fn run(
        self,
        unknown: &[UnknownVariable],
        lease_operations: LeaseOperations,
    ) -> Result<(), CommandError> {
        let config = self.config.load(self.flags())?;
        let logging = logging::start(&config.log)
            .map_err(|reason| CommandError::usage(format!("log.level: {reason}")))?;
        let mut runtime = Builder::new_multi_thread();
        let threads = config.threads();
        run(
            runtime.worker_threads(threads),
            self.serve(config, &logging, unknown, lease_operations),
        )
    }

    /// At each SIGHUP, reads the level of the log, certificates and tokens again.
    async fn serve(
        &self,
        config: Config,
        logging: &Logging,
        unknown: &[UnknownVariable],
        lease_operations: LeaseOperations,
    ) -> Result<(), CommandError> {
        let mut hangup = stop_signal(SignalKind::hangup())?;
        let security = Security::open(&config).map_err(CommandError::usage)?;
        let read_files = security.read_now();
        let reload = async {
            while hangup.recv().await.is_some() {
                read_files.notify_one();
                let configured = self.config.load(self.flags());
                let level = configured.map_err(|error| error.to_string());
                let changed =
                    level.and_then(|config| logging.level.set_configured(&config.log.level));
                if let Err(problem) = changed {
                    tracing::error!(%problem, "log level not changed");
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            served = serve(config, security, logging, unknown, lease_operations) => served,
            never = reload => never,
        }
    }

    fn flags(&self) -> Vec<Flag> {
        let listen = self.listen.iter().map(|listen| Flag {
            name: "--listen",
            key: &["server", "listen"],
            value: listen.as_str().into(),
        });
        let admin_listen = self.admin_listen.iter().map(|listen| Flag {
            name: "--admin-listen",
            key: &["admin", "listen"],
            value: listen.as_str().into(),
        });
        let level = self.log_level.iter().map(|level| Flag {
            name: "--log-level",
            key: &["log", "level"],
            value: level.as_str().into(),
        });
        listen.chain(admin_listen).chain(level).collect()
    }
}

async fn serve(
    mut config: Config,
    security: Security,
    logging: &Logging,
    unknown: &[UnknownVariable],
    lease_operations: LeaseOperations,
) -> Result<(), CommandError> {
    limit_connections(&mut config)?;
    memory_limit::warn_if_exceeded(&config);
    log_unknown_variables(unknown);
    let mut terminate = stop_signal(SignalKind::terminate())?;
    let mut interrupt = stop_signal(SignalKind::interrupt())?;
    let telemetry = Telemetry::start(&config, &logging.counters).map_err(CommandError::usage)?;
    let telemetry = Arc::new(telemetry);
    log_otel_variables(&config.telemetry.otel_variables);
    // Opened before the store, so that it can report that the broker is starting.
    let started_broker = Arc::default();
    let admin_port = start_admin_port(&config, &telemetry, &started_broker, &logging.level)?;
    let store = open_store(&config).await?;
    let address = config.server.listen;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        CommandError::io(format!(
            "cannot listen on {address}: {error}; choose another address with --listen"
        ))
    })?;
    let location = store.location();
    // Without an example, the announcement is shorter.
    let example = store.example_item(QueueIndex(0)).await.ok().flatten();
    let settings = broker::BrokerConfig {
        lease_operations,
        ..broker::BrokerConfig::from(&config)
    };
    let broker = Arc::new(Broker::start_observed(
        store,
        &config.queues,
        settings,
        telemetry.broker_observers(),
    ));
    telemetry.observe_broker(&broker);
    let _ = started_broker.set(broker.clone());
    tokio::spawn(memory_limit::end_heaviest_connections(
        broker.ledger().clone(),
    ));
    let observers = grpc::CallObservers {
        metrics: telemetry.call_metrics(),
        spans: telemetry.spans(),
        sampler: config.telemetry.sampler(),
    };
    let mut serving = grpc::serve_observed(listener, broker.clone(), &config, security, observers)
        .map_err(|error| CommandError::io(error.to_string()))?;
    broker.announce(broker::Identity {
        id: telemetry.instance_id(),
        address: process::host_address(serving.address()),
    });
    announce(&config, &location, serving.address(), example.as_deref());
    if let Some(port) = &admin_port {
        print_line!("admin port: http://{}", port.address());
    }

    tokio::select! {
        error = serving.failed() => return Err(CommandError::io(error.to_string())),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("draining; a second signal ends the process immediately");
    let drained = async {
        let all_finished = serving.drain().await;
        broker.stop().await;
        telemetry.close().await;
        log_span_counts(telemetry.span_counters());
        all_finished
    };
    tokio::select! {
        all_finished = drained => {
            if all_finished {
                tracing::info!("all calls have finished");
            }
            log_operation_counts(&broker);
            all_finished.then_some(()).ok_or_else(|| {
                CommandError::failed("ended calls that were still running after server.drain_grace")
            })
        }
        _ = terminate.recv() => Err(CommandError::failed("ended by a second signal")),
        _ = interrupt.recv() => Err(CommandError::failed("ended by a second signal")),
    }
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

/// Opens the admin port, unless the configuration turns it off. It reports on the broker once `broker` is set.
fn start_admin_port(
    config: &Config,
    telemetry: &Arc<Telemetry>,
    broker: &Arc<OnceLock<Arc<Broker>>>,
    log_level: &Arc<LogLevel>,
) -> Result<Option<AdminPort>, CommandError> {
    let state = admin::AdminState {
        started: SystemTime::now(),
        store: config.store.kind,
        queues: config.queues.clone(),
        broker: broker.clone(),
        pulse: admin::Pulse::start(),
        telemetry: telemetry.clone(),
        log_level: log_level.clone(),
    };
    admin::start(&config.admin, state).map_err(|error| {
        let address = config.admin.listen.map(|address| address.to_string());
        let address = address.unwrap_or_default();
        CommandError::io(format!(
            "cannot open the admin port on {address}: {error}; choose another address with --admin-listen"
        ))
    })
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

/// Starts to listen to a signal. From then on, it does not end the process.
pub fn stop_signal(kind: SignalKind) -> Result<tokio::signal::unix::Signal, CommandError> {
    signal(kind)
        .map_err(|error| CommandError::io(format!("cannot install a signal handler: {error}")))
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
    let is_default = address == crate::cli::client_args::DEFAULT_ADDRESS;
    let address_flag = if is_default && scheme == "http" {
        String::new()
    } else {
        format!(" --address {scheme}://{address}")
    };
    let name = shell_word(&queue.name);
    let claim = format!("lease-broker claim {name}{address_flag}");
    let Some(example) = example else {
        print_line!("try:  {claim}");
        return;
    };
    let columns = example.iter();
    let columns: Vec<String> = columns
        .map(|(column, value)| format!("--set {}", shell_word(&format!("{column}={value}"))))
        .collect();
    let columns = columns.join(" ");
    print_line!("try:  lease-broker enqueue {name}{address_flag} {columns}");
    print_line!("      {claim}");
}

/// Quotes a text for a shell if a shell would change it.
fn shell_word(text: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-=.:/,@%+".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
