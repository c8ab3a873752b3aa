//! `work`: runs a command for each item. Any program becomes a worker.

mod child;
mod input;
mod lines;
mod outcome;

use std::io::{self, Write as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use self::child::Child;
use super::CommandError;
use super::client_args::innermost_cause;
use super::credential_args::CredentialArgs;
use crate::client::{Context, Done, Event, EventName, HandlerError, Item, Worker, WorkerError};

/// The pause between two attempts to connect at the start.
const CONNECT_PAUSE: Duration = Duration::from_millis(200);

/// Run a command for each item of a queue
///
/// Claims items, runs the command once per item, and settles each item by the exit code of its command. Heartbeats keep the
/// lease while the command runs.
///
/// The command reads the item as one line of JSON on standard input, as `claim --output json` prints it, without `lease_id` and
/// `expire_time`.
#[derive(Debug, Args)]
#[command(after_help = "\
Environment of the command: LEASE_BROKER_QUEUE, LEASE_BROKER_KEY, LEASE_BROKER_ATTEMPT, LEASE_BROKER_MAX_ATTEMPTS,
LEASE_BROKER_FENCING_TOKEN, LEASE_BROKER_WORKER_ID, TRACEPARENT, and the variables of --env. All other variables
LEASE_BROKER_… are removed.

Exit code of the command, and the item:
  0              completed
  75             failed. Tried again while it has attempts left
  65             dead: not tried again
  69             released after a pause of 5s. The attempt does not count
  126, 127       released, and `work` ends: the command cannot be run
  any other      failed, with the last 1,024 characters of standard error
  a signal       failed, with the number of the signal

If the lease is lost, the time limit has passed or `work` stops, the process group of the command gets SIGTERM, and
SIGKILL 4s later. SIGTERM or Ctrl-C stops `work`: it claims nothing more and waits for commands.

Exit codes: 0 stopped, or no item is left; 1 the service refused the worker, or a command did not end; 64 the command
cannot be run; 69 no connection within --connect-timeout.

Examples:
  lease-broker work orders -- ./ship.sh
  lease-broker work orders --concurrency 8 --env customer=CUSTOMER -- ./ship.sh
  lease-broker work orders --until-empty --follow-up mail -- jq -c '{text: .columns.customer}'")]
pub(super) struct Work {
    /// Queue to work on
    queue: String,
    /// Program to run, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// URL of the service, or several host:port with commas between them
    #[arg(
        long,
        value_name = "URL",
        env = "LEASE_BROKER_ADDRESS",
        default_value = "http://127.0.0.1:50051"
    )]
    address: String,
    /// Maximum time to wait for the service at the start
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "30s")]
    connect_timeout: Duration,
    /// Worker name that is stored with the leases [default: host, process id and random digits]
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Number of commands that run at the same time
    #[arg(long, value_name = "N", default_value_t = 1)]
    concurrency: usize,
    /// Duration of the leases [default: as configured for the queue]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    lease: Option<Duration>,
    /// Longest time of a command. Then it is ended and its item fails [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    time_limit: Option<Duration>,
    /// Time that commands have to end when `work` stops
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "20s")]
    grace: Duration,
    /// End when a claim finds no item. Without it, `work` waits for items
    #[arg(long)]
    until_empty: bool,
    /// End after N items
    #[arg(long, value_name = "N")]
    max_items: Option<usize>,
    /// Set an environment variable of the command to the value of a column. May be repeated
    #[arg(long, value_name = "COLUMN=NAME", value_parser = parse_env)]
    env: Vec<(String, String)>,
    /// Add each line that the command prints, a JSON object of columns, to this queue when the item is completed
    #[arg(long, value_name = "QUEUE")]
    follow_up: Option<String>,
    #[command(flatten)]
    credentials: CredentialArgs,
}

/// The parts that all runs of the command share.
struct Settings {
    queue: String,
    worker_id: String,
    command: Vec<String>,
    env: Vec<(String, String)>,
    follow_up: Option<String>,
    /// True: the output has the key of the item before each line.
    prefix_output: bool,
    cannot_run: CannotRun,
}

/// The reason for which the command cannot be run, for any item.
#[derive(Default)]
struct CannotRun {
    reason: OnceLock<String>,
    is_set: Notify,
}

impl CannotRun {
    fn set(&self, reason: String) {
        // The first reason is reported.
        let _ = self.reason.set(reason);
        self.is_set.notify_one();
    }
}

impl Work {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        wait_for_service(&self.address, &self.credentials, self.connect_timeout).await?;
        let credentials = self.credentials.of_worker(&self.address)?;
        let mut worker = Worker::new(self.address, self.queue.clone())
            .credentials(credentials)
            .concurrency(self.concurrency)
            .grace(self.grace)
            .on_event(report);
        if let Some(name) = self.worker {
            worker = worker.worker_id(name);
        }
        if let Some(lease) = self.lease {
            worker = worker.lease(lease);
        }
        if let Some(limit) = self.time_limit {
            worker = worker.time_limit(limit);
        }
        if let Some(items) = self.max_items {
            worker = worker.max_items(items);
        }
        if let Some(token) = self.credentials.token() {
            worker = worker.token(token);
        }
        if self.until_empty {
            worker = worker.until_empty();
        }
        let settings = Arc::new(Settings {
            queue: self.queue,
            worker_id: worker.id().to_owned(),
            command: self.command,
            env: self.env,
            follow_up: self.follow_up,
            prefix_output: self.concurrency > 1,
            cannot_run: CannotRun::default(),
        });
        let shared = settings.clone();
        let running = worker
            .start(move |item, context| run_command(shared.clone(), item, context))
            .map_err(|error| command_error(&error))?;
        running.stop_on_signals();
        let ended = tokio::select! {
            ended = running.wait() => ended,
            () = settings.cannot_run.is_set.notified() => running.stop(self.grace).await,
        };
        match settings.cannot_run.reason.get() {
            Some(reason) => Err(CommandError::usage(reason)),
            None => ended.map_err(|error| command_error(&error)),
        }
    }
}

/// Runs the command for one item.
async fn run_command(
    settings: Arc<Settings>,
    item: Item,
    context: Context,
) -> Result<Done, HandlerError> {
    let input = input::of_item(&item)?;
    let child = Child::spawn(&settings, &item)?;
    let ended = child.run(input, &settings, &item, &context).await?;
    outcome::of_command(ended, &settings, &context).await
}

/// Waits until a connection can be made. The worker itself would wait without a limit.
async fn wait_for_service(
    addresses: &str,
    credentials: &CredentialArgs,
    limit: Duration,
) -> Result<(), CommandError> {
    let until = Instant::now() + limit;
    loop {
        let mut reason = String::from("no address");
        for address in addresses.split(',').map(str::trim) {
            let endpoint = credentials.endpoint(address)?;
            let left = until.saturating_duration_since(Instant::now());
            match timeout(left.max(CONNECT_PAUSE), endpoint.connect()).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => reason = innermost_cause(&error),
                Err(_) => "no answer".clone_into(&mut reason),
            }
        }
        if Instant::now() + CONNECT_PAUSE >= until {
            return Err(CommandError::unavailable(format!(
                "cannot connect to the service at {addresses} within {limit:?}: {reason}; start it with `lease-broker serve`, \
                 or name another address with --address"
            )));
        }
        sleep(CONNECT_PAUSE).await;
    }
}

/// Writes the events that a person wants to see to standard error.
fn report(event: &Event) {
    let text = match event.name {
        EventName::Failed | EventName::Unknown | EventName::Disconnected => &event.error,
        EventName::Lost | EventName::Cancelled | EventName::Refused => &event.reason,
        EventName::Stuck => "the command does not end",
        _ => return,
    };
    let name = event.name.as_str();
    match &event.item {
        Some(item) => write_error_line(&format!(
            "lease-broker: {name}: item {}: {text}",
            item.key()
        )),
        None => write_error_line(&format!("lease-broker: {name}: {text}")),
    }
}

/// Writes a line to standard error. Ignores errors: its reader may have ended, and the work goes on.
fn write_error_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn command_error(error: &WorkerError) -> CommandError {
    let text = error.to_string();
    match error {
        WorkerError::Options(_) => CommandError::usage(text),
        WorkerError::Refused(_) => CommandError::failed(text),
        WorkerError::HandlersLeft => CommandError::failed("a command did not end"),
        WorkerError::Internal(_) => CommandError::io(text),
    }
}

fn parse_env(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((column, name)) if !column.is_empty() && !name.is_empty() => {
            Ok((column.to_owned(), name.to_owned()))
        }
        _ => Err("must be COLUMN=NAME".to_owned()),
    }
}
