//! `enqueue`: adds one item, or all items of a file, by calls to the service.

mod batches;
mod run;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use indicatif::{ProgressBar, ProgressStyle};
use lease_broker_proto as proto;
use lease_broker_proto::lease_service_client::LeaseServiceClient;
use tokio::time::Instant;
use tonic::{Code, Response, Status};
use tonic_types::StatusExt as _;
use uuid::Uuid;

use self::batches::Batch;
use self::run::{Problem, Run};
use super::CommandError;
use super::client_args::ClientArgs;
use super::connection::{Connection, ConnectionError};
use super::item_file::{Items, csv, jsonl};
use super::item_input::columns_from_flags;
use super::operate::complete;
use super::output::{Row, note, plural};
use super::stop_requests::StopRequests;
use crate::grpc::duration_to_proto;

/// The pause before a call is sent again, because the service is unavailable. Each further pause is twice as long, up to
/// the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Add an item or a file of items to a queue
///
/// --set adds a single item. --file adds the items of a file.
///
/// The first line of a CSV file names the columns. Values are sent as text, and the database converts them to the types
/// of the columns. An empty value leaves its column at the default of the table. A file of JSON lines has one object per
/// item. Write a value of a type that JSON lacks as {"bytes": "base64"}, {"decimal": "12.50"} or
/// {"timestamp": "2026-11-20T22:15:20Z"}.
///
/// Run the same command again if a run of --file was interrupted. It continues, and no item is added twice. For the queue's
/// `enqueue_memory`, 24 hours by default, a further run of the same file adds nothing. To add the file once more, give the
/// second run an own --run-id.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("items").required(true).args(["set", "file"]))]
#[command(after_help = "\
Examples:
  lease-broker enqueue default --set payload=hello
  lease-broker enqueue orders --set customer=Ada --set total=12.50 --delay 10m
  lease-broker enqueue events --file events.csv
  lease-broker enqueue events --file events.csv --run-id second     add the same file once more
  zcat events.jsonl.gz | lease-broker enqueue events --file - --format jsonl --delay 10m")]
pub(super) struct Enqueue {
    /// Queue to add the items to
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Column and value of a single item, such as --set payload=hello. Repeat for more columns
    #[arg(long, value_name = "COLUMN=VALUE")]
    set: Vec<String>,
    /// File of items, or - for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Format of the file [default: by the extension of the file name]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Delay until the items are ready [default: none]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    delay: Option<Duration>,
    /// Number of items to skip at the start of the file, because an earlier run has added them
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Name of this run. A run with the name of an earlier one adds only the items that are missing. Such a run needs the same
    /// items, --batch and --delay [default: a digest of the file; for standard input, a random name]
    #[arg(long, value_name = "TEXT", conflicts_with = "set")]
    run_id: Option<String>,
    /// Number of items per call
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    batch: u16,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Csv,
    Jsonl,
}

impl Enqueue {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let client = self.client.connect(Duration::ZERO).await?;
        match self.file.clone() {
            None => self.enqueue_one(client).await,
            Some(file) => self.enqueue_file(client, &file).await,
        }
    }

    async fn enqueue_one(
        self,
        mut client: LeaseServiceClient<Connection>,
    ) -> Result<(), CommandError> {
        let item = proto::NewItem {
            columns: columns_from_flags(&self.set)?,
            delay: self.delay.map(duration_to_proto),
            ..proto::NewItem::default()
        };
        let request = proto::EnqueueRequest {
            queue: self.queue,
            items: vec![item],
            request_id: Uuid::new_v4().to_string(),
        };
        let response = send(&mut client, request, self.client.timeout).await?;
        let rows: Vec<Row> = response
            .results
            .into_iter()
            .map(|result| Row::default().key(&result.key))
            .collect();
        self.client.output.print(&rows, "");
        Ok(())
    }

    async fn enqueue_file(
        self,
        mut client: LeaseServiceClient<Connection>,
        file: &Path,
    ) -> Result<(), CommandError> {
        let run = Run::new(file, self.run_id.as_deref())?;
        let bar = progress_bar(file);
        let mut batches = batches::read(self.read(file, &bar)?, self.batch.into(), self.skip);
        let mut stop = StopRequests::listen()?;
        let (mut added, mut earlier) = (0, 0);
        loop {
            let add_next = async {
                let Some(batch) = batches.recv().await else {
                    return Ok(None);
                };
                let batch = batch.map_err(Problem::from)?;
                self.add(&mut client, &run.id, batch).await.map(Some)
            };
            let outcome = tokio::select! {
                outcome = add_next => outcome,
                () = stop.next() => return Err(run.interrupted(added)),
            };
            let outcome = outcome.map_err(|error| run.with_resume_hint(error, self.skip, added));
            let Some(results) = outcome? else { break };
            added += results.len() as u64;
            earlier += results.iter().filter(|result| result.already_added).count() as u64;
            bar.set_message(plural(added, "item"));
        }
        bar.finish_and_clear();
        let row = Row::default()
            .field("items", added)
            .field("run_id", run.id.as_str());
        self.client.output.print(&[row], "");
        if earlier > 0 {
            note(&format!(
                "an earlier call of this run has added {} of the items; to add the file once more, give it another --run-id",
                if earlier == added {
                    "all".to_owned()
                } else {
                    earlier.to_string()
                }
            ));
        }
        Ok(())
    }

    /// Adds the items of a batch.
    async fn add(
        &self,
        client: &mut LeaseServiceClient<Connection>,
        run_id: &str,
        batch: Batch,
    ) -> Result<Vec<proto::EnqueueResult>, Problem> {
        let request_id = batches::request_id(&self.queue, run_id, batch.position);
        let request = proto::EnqueueRequest {
            queue: self.queue.clone(),
            items: batch.items,
            request_id: request_id.to_string(),
        };
        let sent = send(client, request, self.client.timeout).await;
        sent.map(|response| response.results)
            .map_err(|status| refusal(status, &batch.lines))
    }

    fn read(&self, file: &Path, bar: &ProgressBar) -> Result<Items, CommandError> {
        let name = file.display().to_string();
        let input: Box<dyn Read + Send> = if name == "-" {
            Box::new(io::stdin())
        } else {
            let file = File::open(file);
            Box::new(file.map_err(|error| CommandError::io(format!("{name}: {error}")))?)
        };
        let input = BufReader::new(bar.wrap_read(input));
        let extension = file.extension().map(OsStr::to_ascii_lowercase);
        let extension = extension.as_deref().and_then(OsStr::to_str);
        let delay = self.delay.map(duration_to_proto);
        let format = match (self.format, extension) {
            (Some(format), _) => format,
            (None, Some("csv")) => Format::Csv,
            (None, Some("jsonl" | "ndjson" | "json")) => Format::Jsonl,
            (None, _) => {
                return Err(CommandError::usage(format!(
                    "{name}: unknown format; set --format csv or --format jsonl"
                )));
            }
        };
        let items = match format {
            Format::Csv => csv(input, &name)?,
            Format::Jsonl => jsonl(input, &name),
        };
        Ok(Box::new(items.map(move |item| {
            item.map(|(line, item)| (line, proto::NewItem { delay, ..item }))
        })))
    }
}

/// Sends a request. Sends it again while the service is unavailable, until `limit` has passed. Its request id makes this
/// safe.
async fn send(
    client: &mut LeaseServiceClient<Connection>,
    request: proto::EnqueueRequest,
    limit: Duration,
) -> Result<proto::EnqueueResponse, Status> {
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match client.enqueue(request.clone()).await {
            Err(status) if is_outage(&status) && begun.elapsed() + pause < limit => {}
            outcome => return outcome.map(Response::into_inner),
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// Returns whether the same call can succeed later.
fn is_outage(status: &Status) -> bool {
    let connection = ConnectionError::of_status(status);
    status.code() == Code::Unavailable || connection.is_some_and(|error| error.can_pass)
}

/// Converts a status to a problem. Adds the line of the refused item if the status names one.
fn refusal(status: Status, lines: &[u64]) -> Problem {
    let details = status.get_details_bad_request();
    let fields = details.map(|request| request.field_violations);
    let field = fields.and_then(|fields| fields.into_iter().next());
    let field = field.map(|violation| violation.field).unwrap_or_default();
    if field == "request_id" {
        let line = lines.first().copied().unwrap_or_default();
        return Problem::OtherItems { line };
    }
    let index = field.strip_prefix("items[").and_then(|rest| {
        let (index, _) = rest.split_once(']')?;
        index.parse::<usize>().ok()
    });
    let error = CommandError::from(status);
    Problem::Other(match index.and_then(|index| lines.get(index)) {
        Some(line) => error.with_context(format!("line {line}")),
        None => error,
    })
}

fn progress_bar(file: &Path) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = |template| {
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
    };
    match std::fs::metadata(file) {
        Ok(file) if file.is_file() => ProgressBar::new(file.len()).with_style(style(
            "{bar:40} {percent}%  {bytes_per_sec}  {eta} left  {msg}",
        )),
        _ => ProgressBar::new_spinner().with_style(style("{spinner} {bytes}  {msg}")),
    }
}
