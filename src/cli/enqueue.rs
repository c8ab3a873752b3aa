//! `enqueue`: adds one item, or all items of a file, by calls to the service.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal as _, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tonic::{Code, Response, Status};
use tonic_types::StatusExt as _;
use uuid::Uuid;

use super::CommandError;
use super::client_args::{ClientArgs, proto_duration};
use super::credential_args::AuthorizedChannel;
use super::item_file::{Items, csv, jsonl};
use super::item_input::columns_from_flags;
use super::output::Row;
use crate::grpc::proto::{self, lease_broker_service_client::LeaseBrokerServiceClient};

/// The number of times that a call is sent while the service is unavailable, and the pause after the first. Each further
/// pause is twice as long.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Add an item or a file of items to a queue
///
/// The first line of a CSV file names the columns. Values are sent as text, and the database converts them to the types
/// of the columns. An empty value leaves its column at the default of the table. A file of JSON lines has one object per
/// item. Write a value of a type that JSON lacks as {"bytes": "base64"}, {"decimal": "12.50"} or
/// {"timestamp": "2026-11-20T22:15:20Z"}.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker enqueue default --set payload=hello
  lease-broker enqueue events --file events.csv
  zcat events.jsonl.gz | lease-broker enqueue events --file - --format jsonl --delay 10m")]
pub(super) struct Enqueue {
    /// Queue to add the items to
    queue: String,
    /// Column and value of a single item. Repeat for more columns
    #[arg(long, value_name = "COLUMN=VALUE", conflicts_with = "file")]
    set: Vec<String>,
    /// File of items, or - for standard input
    #[arg(long, value_name = "FILE", required_unless_present = "set")]
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
        mut client: LeaseBrokerServiceClient<AuthorizedChannel>,
    ) -> Result<(), CommandError> {
        let item = proto::NewItem {
            columns: columns_from_flags(&self.set)?,
            delay: self.delay.map(proto_duration),
            ..proto::NewItem::default()
        };
        let request = proto::EnqueueRequest {
            queue: self.queue,
            items: vec![item],
            request_id: Uuid::new_v4().to_string(),
        };
        let keys = send(&mut client, request).await?.keys;
        let rows: Vec<Row> = keys
            .into_iter()
            .map(|key| Row::default().field("key", key))
            .collect();
        self.client.output.print(&rows, "");
        Ok(())
    }

    async fn enqueue_file(
        self,
        mut client: LeaseBrokerServiceClient<AuthorizedChannel>,
        file: &PathBuf,
    ) -> Result<(), CommandError> {
        let bar = progress_bar(file);
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let mut items = self.read(file, &bar)?.skip(skip);
        let mut added = 0;
        loop {
            let batch: Vec<(u64, proto::NewItem)> = items
                .by_ref()
                .take(self.batch.into())
                .collect::<Result<_, _>>()
                .map_err(|error| self.with_resume_hint(error, added))?;
            if batch.is_empty() {
                break;
            }
            let (lines, batch): (Vec<u64>, Vec<_>) = batch.into_iter().unzip();
            let count = batch.len() as u64;
            let request = proto::EnqueueRequest {
                queue: self.queue.clone(),
                items: batch,
                request_id: Uuid::new_v4().to_string(),
            };
            let enqueued = send(&mut client, request).await;
            enqueued.map_err(|status| self.with_resume_hint(with_line(status, &lines), added))?;
            added += count;
            bar.set_message(format!("{added} items"));
        }
        bar.finish_and_clear();
        let row = Row::default().field("added", added);
        self.client.output.print(&[row], "");
        Ok(())
    }

    /// Adds to an error the number of items added before it, and the flag that continues after them.
    fn with_resume_hint(&self, error: CommandError, added: u64) -> CommandError {
        let skip = self.skip + added;
        error.with_context(format!(
            "{added} items were added before an error; correct it and continue with --skip {skip}"
        ))
    }

    fn read(&self, file: &PathBuf, bar: &ProgressBar) -> Result<Items, CommandError> {
        let name = file.display().to_string();
        let input: Box<dyn Read> = if name == "-" {
            Box::new(io::stdin())
        } else {
            let file = File::open(file);
            Box::new(file.map_err(|error| CommandError::io(format!("{name}: {error}")))?)
        };
        let input = BufReader::new(bar.wrap_read(input));
        let extension = file.extension().and_then(|extension| extension.to_str());
        let delay = self.delay.map(proto_duration);
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

/// Sends a request. Sends it again while the service is unavailable, up to [`TRIES`] times together. Its request id makes this
/// safe.
async fn send(
    client: &mut LeaseBrokerServiceClient<AuthorizedChannel>,
    request: proto::EnqueueRequest,
) -> Result<proto::EnqueueResponse, Status> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        match client.enqueue(request.clone()).await {
            Err(status) if status.code() == Code::Unavailable => {}
            outcome => return outcome.map(Response::into_inner),
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    client.enqueue(request).await.map(Response::into_inner)
}

/// Converts a status to an error, prefixed with the line number of the refused item if the status names one.
fn with_line(status: tonic::Status, lines: &[u64]) -> CommandError {
    let line = status
        .get_details_bad_request()
        .and_then(|request| {
            request
                .field_violations
                .first()
                .map(|field| field.field.clone())
        })
        .and_then(|field| {
            let index = field.strip_prefix("items[")?.split_once(']')?.0;
            lines.get(index.parse::<usize>().ok()?).copied()
        });
    let error = CommandError::from(status);
    match line {
        Some(line) => error.with_context(format!("line {line}")),
        None => error,
    }
}

fn progress_bar(file: &PathBuf) -> ProgressBar {
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
