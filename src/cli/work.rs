//! `work`: runs a command for each item. Any program becomes a worker.

mod child;
mod input;
mod lines;
mod outcome;
mod settings;
mod variables;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lease_broker_client::{
    Context, Done, Event, EventName, HandlerError, Item, RunningWorker, Worker, WorkerError,
};
use lease_broker_model::text;
use lease_broker_proto::WakeRequest;
use lease_broker_proto::lease_service_client::LeaseServiceClient;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use self::child::Child;
use self::settings::{Mistake, Settings, Variables};
use self::writer::Writer;
use super::CommandError;
use super::client_args;
use super::connect::Attempts;
use super::connection::{Connection, ConnectionError};
use super::credential_args::CredentialArgs;
use super::output::{pass_error_line_on, pass_line_on};
use super::stop_requests::StopRequests;
use crate::config::{Log, LogFormat};
use crate::logging;

/// The time for the last lines after a signal.
const WRITE_AFTER_SIGNAL: Duration = Duration::from_secs(1);
/// The time limit of each check at the start.
const CHECK_LIMIT: Duration = Duration::from_secs(10);
/// Warnings of the worker library. The error that ends the worker and those of items are left out, because `work` prints
/// them itself.
const LOG_LEVEL: &str = "warn,lease_broker_client::control=off,lease_broker_client::events=off,lease_broker_client::runners=off,lease_broker_client::stop=off";

/// Run a command for each item of a queue
///
/// Claims items, runs the command once per item, and settles each item by the exit code of its command. Heartbeats keep the
/// lease while the command runs.
///
/// The command reads the item as one line of JSON on standard input, as `claim --output json` prints it, without `lease_id` and
/// `expire_time`.
#[derive(Debug, Args)]
#[command(after_help = "\
Environment of the command:
  LEASE_BROKER_ITEM_QUEUE, LEASE_BROKER_ITEM_KEY, LEASE_BROKER_ITEM_ATTEMPT,
  LEASE_BROKER_ITEM_MAX_ATTEMPTS, LEASE_BROKER_ITEM_FENCING_TOKEN,
  LEASE_BROKER_ITEM_WORKER_ID       the item
  TRACEPARENT                       the trace of the item, if it has one
  LEASE_BROKER_ADDRESS, and those of the credentials that `work` uses
                                    for a `lease-broker` in the command
  the variables of --env

All other variables LEASE_BROKER_… are removed.

Exit code of the command, and the item:
  0              completed
  75             failed. Tried again while it has attempts left
  65             dead: not tried again
  69             released after a pause of 5s. The attempt does not count
  126, 127       released, and `work` ends with 64: the command cannot be run
  any other      failed, with the code and the end of standard error: 1,024 characters together
  a signal       failed, with the number of the signal

If the host lacks files, processes or memory to start the command, the item is released after 5s, too.

If the lease is lost, the time limit has passed or `work` stops, the process group of the command gets SIGTERM, and \
SIGKILL 4s later. SIGTERM, SIGHUP, SIGQUIT or Ctrl-C stops `work`: it claims nothing more and waits for commands.

The output of the command is passed on by lines. If it goes to a terminal, control characters are escaped. An item ends when \
its command has ended and its output was read, for at most 1s. With --follow-up, it ends when standard output is closed.

Exit codes: 0 stopped, or no item is left; 1 the service refused the worker, or a command did not end; 64 the command \
cannot be run, or a column or a queue does not exist; 69 no connection within --connect-timeout. After 64 the items are \
ready again, and no attempt counts. 74: standard output cannot be written.

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
        env = client_args::ADDRESS,
        default_value = "http://127.0.0.1:50051"
    )]
    address: String,
    /// Maximum time to wait for the service at the start
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "30s")]
    connect_timeout: Duration,
    /// Worker name that is stored with the leases [default: host, process id and random digits]
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Only items of this group, such as 42. Repeat the flag for several groups
    #[arg(long = "group", value_name = "GROUP", allow_negative_numbers = true)]
    groups: Vec<String>,
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
    /// Set an environment variable of the command to the value of a column. Not set if the value is NULL. May be repeated
    #[arg(long, value_name = "COLUMN=NAME", value_parser = parse_env)]
    env: Vec<(String, String)>,
    /// Add each line that the command prints, a JSON object of columns, to this queue when the item is completed
    #[arg(long, value_name = "QUEUE")]
    follow_up: Option<String>,
    #[command(flatten)]
    credentials: CredentialArgs,
}

impl Work {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        // The worker library warns of outages by the log.
        let _logging = logging::start(&Log {
            level: LOG_LEVEL.to_owned(),
            format: LogFormat::Human,
            audit_file: PathBuf::new(),
        })
        .map_err(CommandError::io)?;
        // The worker itself would wait for the service without a limit.
        let addresses = self.credentials.addresses(&self.address)?;
        let (channel, endpoint) = addresses
            .connect(self.connect_timeout, Attempts::UntilLimit)
            .await?;
        let channel = self.credentials.bearer()?.authorize(channel);
        let connection = Connection::new(channel, endpoint.timeout(CHECK_LIMIT));
        check_port(connection.clone()).await?;
        if let Some(queue) = &self.follow_up {
            check_follow_up(connection, queue).await?;
        }
        let credentials = self.credentials.of_worker(&self.address)?;
        let mut broker = self.credentials.variables();
        broker.push((client_args::ADDRESS, self.address.into()));
        let start_error = |error| CommandError::io(format!("cannot start the worker: {error}"));
        let output = Writer::start(pass_line_on).map_err(start_error)?;
        let errors = Writer::start(pass_error_line_on).map_err(start_error)?;
        // A command has a process group of its own, so a terminal that closes does not end it.
        let mut signals = StopRequests::listen_to_terminal()?;
        let reports = errors.clone();
        let mut worker = Worker::new(addresses.authorities(), self.queue.clone())
            .credentials(credentials)
            .groups(self.groups)
            .concurrency(self.concurrency)
            .grace(self.grace)
            .on_event(move |event| report(&reports, event));
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
            variables: Variables {
                broker,
                columns: self.env,
            },
            follow_up: self.follow_up,
            prefix_output: self.concurrency > 1,
            output,
            errors,
            mistake: Mistake::default(),
        });
        let shared = settings.clone();
        let running = worker
            .start(move |item, context| run_command(shared.clone(), item, context))
            .map_err(|error| command_error(&error))?;
        running.stop_on_signals();
        let ended = wait_for_end(&running, &settings, &mut signals, self.grace).await;
        match settings.mistake.reason.get() {
            Some(reason) => Err(CommandError::usage(reason)),
            None => ended.map_err(|error| command_error(&error)),
        }
    }
}

/// Waits until the worker has ended, and until the lines of its commands are written.
async fn wait_for_end(
    running: &RunningWorker,
    settings: &Settings,
    signals: &mut StopRequests,
    grace: Duration,
) -> Result<(), WorkerError> {
    let mut has_signal = false;
    let ended = tokio::select! {
        ended = running.wait() => ended,
        () = settings.mistake.is_set.notified() => running.stop(grace).await,
        () = signals.next() => {
            has_signal = true;
            running.stop(grace).await
        }
    };
    // Until a signal, the reader may pause for as long as it wants.
    let give_up = async {
        if !has_signal {
            signals.next().await;
        }
        tokio::time::sleep(WRITE_AFTER_SIGNAL).await;
    };
    let written = async { tokio::join!(settings.output.flush(), settings.errors.flush()) };
    tokio::select! {
        _ = written => {}
        () = give_up => {}
    }
    ended
}

/// Runs the command for one item.
async fn run_command(
    settings: Arc<Settings>,
    item: Item,
    context: Context,
) -> Result<Done, HandlerError> {
    let input = input::of_item(&item)?;
    let child = Child::spawn(&settings, &item, &context).await?;
    let ended = child.run(input, &settings, &item, &context).await?;
    outcome::of_command(ended, &settings, &context).await
}

/// Checks that the port accepts calls of this command. Some mistakes, such as plain text to a port of TLS, show only in a
/// call, and the worker would try again without a limit.
async fn check_port(connection: Connection) -> Result<(), CommandError> {
    let request = HealthCheckRequest::default();
    match HealthClient::new(connection).check(request).await {
        Err(status) if ConnectionError::of_status(&status).is_some_and(|error| !error.can_pass) => {
            Err(status.into())
        }
        // The worker waits for a service that is not healthy.
        _ => Ok(()),
    }
}

/// Checks that the service has the queue of the follow-ups. Otherwise it would refuse each completion, and the items would use
/// up their attempts. The check is a wake-up, the only call that names a queue and changes nothing.
async fn check_follow_up(connection: Connection, queue: &str) -> Result<(), CommandError> {
    let request = WakeRequest {
        queue: queue.to_owned(),
    };
    let woken = LeaseServiceClient::new(connection).wake(request).await;
    match woken {
        Err(status) if status.code() == Code::NotFound => Err(CommandError::usage(format!(
            "--follow-up {queue}: {}",
            status.message()
        ))),
        // The completions show other errors.
        _ => Ok(()),
    }
}

/// Writes the events that a person wants to see to standard error. Must not block: the worker waits for it.
fn report(errors: &Writer, event: &Event) {
    let text = match event.name {
        EventName::Failed | EventName::Unknown | EventName::Disconnected => event.error.clone(),
        EventName::Cancelled if event.reason.is_empty() => event
            .cause
            .map(|cause| cause.to_string())
            .unwrap_or_default(),
        EventName::Lost | EventName::Cancelled | EventName::Refused => event.reason.clone(),
        EventName::Stuck => "the command does not end".to_owned(),
        _ => return,
    };
    let (name, text) = (event.name.as_str(), text::visible(&text));
    errors.report(match &event.item {
        Some(item) => {
            let key = text::visible(item.key());
            format!("lease-broker: {name}: item {key}: {text}")
        }
        None => format!("lease-broker: {name}: {text}"),
    });
}

fn command_error(error: &WorkerError) -> CommandError {
    let text = error.to_string();
    match error {
        WorkerError::Options(_) => CommandError::usage(text),
        WorkerError::Refused(refused) if refused.code == Code::NotFound => {
            CommandError::usage(text)
        }
        WorkerError::Refused(_) => CommandError::failed(text),
        WorkerError::HandlersLeft => CommandError::failed("a command did not end"),
        // An error of the library or of the system, also of a kind that a later version of the library adds.
        _ => CommandError::io(text),
    }
}

fn parse_env(text: &str) -> Result<(String, String), String> {
    let (column, name) = text.split_once('=').ok_or("must be COLUMN=NAME")?;
    if column.is_empty() || name.is_empty() || name.contains('=') {
        return Err("must be COLUMN=NAME".to_owned());
    }
    if name.starts_with(variables::RESERVED) || name == variables::TRACE_PARENT {
        return Err(format!(
            "{name} cannot be set: `work` itself sets {} and the variables {}…",
            variables::TRACE_PARENT,
            variables::RESERVED
        ));
    }
    Ok((column.to_owned(), name.to_owned()))
}
