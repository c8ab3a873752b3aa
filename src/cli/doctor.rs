//! `doctor`: finds out on one page what keeps a service, or a worker's connection to it, from working.
//!
//! Each check has a time limit, so the page appears also while the database hangs.

mod broker_side;
mod database;
mod finding;
mod part;
mod sqlite_file;
mod worker_side;

use std::thread;
use std::time::Duration;

use clap::Args;

use self::finding::{Finding, Side, Verdict};
use self::part::Part;
use super::CommandError;
use super::client_args::ClientArgs;
use super::config_args::ConfigArgs;
use super::health::readiness::reachable;
use super::output::{OutputFormat, plural};
use crate::config::Config;

/// Check a service and a worker's connection to it, on one page
///
/// The broker side looks at the database directly, with the configuration of the service: the space that is left, the log, the process
/// that holds SQLite's write lock, the brokers, their clocks, the tables, and the answer of the admin port. The worker side calls the
/// service: connection, TLS, login, role, queue. Without --address it calls the service of the configuration on this host. No check
/// changes anything. All run at the same time, and give up after --timeout, at most 5 s.
///
/// Exit code 0: no problem; there may be warnings. 1: a problem was found. 64: the command line or the configuration is wrong.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker doctor --config queues.toml                    on the host of the service
  lease-broker doctor --side worker --queue orders --address https://broker:50051
  lease-broker doctor --json | jq 'select(.verdict != \"ok\")'")]
pub(super) struct Doctor {
    /// The side to check [default: both]
    #[arg(long, value_enum)]
    side: Option<Side>,
    /// Queue of the worker [default: each queue of the configuration that the worker side can reach]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// The same as --output json
    #[arg(long)]
    json: bool,
    /// Make these checks only, for the process that shows the page
    #[arg(long, value_enum, hide = true)]
    part: Option<Part>,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// The longest time of a check. `--timeout` can shorten it.
const MAX_LIMIT: Duration = Duration::from_secs(5);

impl Doctor {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        let limit = self.client.timeout.min(MAX_LIMIT);
        self.client.timeout = limit;
        let config = match self.side {
            Some(Side::Worker) => None,
            _ => Some(self.config.load(Vec::new())?),
        };
        if let (Some(part), Some(config)) = (self.part, config.clone()) {
            // Opening a database on a server starts a runtime of its own.
            let _ = thread::spawn(move || part.check(&config)).join();
            return Ok(());
        }
        let broker_side = async {
            match &config {
                Some(config) => broker_side::check(config, limit).await,
                None => Vec::new(),
            }
        };
        let worker_side = async {
            match self.side {
                Some(Side::Broker) => Vec::new(),
                _ => self.check_worker_side(config.as_ref()).await,
            }
        };
        let (mut findings, of_worker) = tokio::join!(broker_side, worker_side);
        findings.extend(of_worker);
        let output = if self.json {
            OutputFormat::Json
        } else {
            self.client.output
        };
        let rows: Vec<_> = findings.iter().map(Finding::row).collect();
        output.print(&rows, "");
        let problems = findings.iter();
        let problems = problems.filter(|finding| finding.verdict == Verdict::Problem);
        match problems.count() as u64 {
            0 => Ok(()),
            count => Err(CommandError::failed(format!(
                "{} found",
                plural(count, "problem")
            ))),
        }
    }
    async fn check_worker_side(&self, config: Option<&Config>) -> Vec<Finding> {
        let queues: Vec<String> = match (&self.queue, config) {
            (Some(queue), _) => vec![queue.clone()],
            (None, Some(config)) => config
                .queues
                .iter()
                .map(|queue| queue.name.clone())
                .collect(),
            (None, None) => Vec::new(),
        };
        let server = config.map(|config| &config.server);
        let Some(server) =
            server.filter(|server| self.client.address().is_none() && server.listen.port() != 0)
        else {
            return worker_side::check(&self.client, &queues).await;
        };
        if server.tls.is_some() {
            let detail =
                "the service has TLS; name the address that its certificate is for with --address";
            return vec![Finding::worker("connection", Verdict::Skipped, detail)];
        }
        let client = self
            .client
            .at(format!("http://{}", reachable(server.listen)));
        worker_side::check(&client, &queues).await
    }
}
