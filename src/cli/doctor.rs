//! `doctor`: finds out on one page what keeps a service, or a worker's connection to it, from working.
//!
//! Each check has a time limit, so the page appears also while the database hangs.

mod bounded;
mod broker_side;
mod finding;
mod sqlite_file;
mod worker_side;

use std::time::Duration;

use clap::{Args, ValueEnum};

use self::finding::{Finding, Verdict};
use super::CommandError;
use super::client_args::ClientArgs;
use super::config_args::ConfigArgs;
use super::output::{OutputFormat, plural};

/// Check a service and a worker's connection to it, on one page
///
/// The broker side looks at the database directly, with the configuration of the service: the space that is left, the log, the process
/// that holds SQLite's write lock, the brokers, their clocks, the tables, and the answer of the admin port. The worker side calls the
/// service: connection, TLS, login, role, queue. No check changes anything, and each gives up after --timeout.
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
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Broker,
    Worker,
}

/// The longest time of a check. `--timeout` can shorten it.
const MAX_LIMIT: Duration = Duration::from_secs(5);

impl Doctor {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let limit = self.client.timeout.min(MAX_LIMIT);
        let config = match self.side {
            Some(Side::Worker) => None,
            _ => Some(self.config.load(Vec::new())?),
        };
        let mut findings = Vec::new();
        if let Some(config) = &config {
            findings.extend(broker_side::check(config, limit).await);
        }
        if self.side != Some(Side::Broker) {
            let configured = config.iter().flat_map(|config| &config.queues);
            let queues: Vec<String> = match &self.queue {
                Some(queue) => vec![queue.clone()],
                None => configured.map(|queue| queue.name.clone()).collect(),
            };
            findings.extend(worker_side::check(&self.client, &queues).await);
        }
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
}
