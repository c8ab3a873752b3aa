//! `enqueue`: adding items through the API, one or a file of them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value as Json, json};
use tonic::transport::Channel;
use tonic_types::StatusExt as _;

use super::CommandError;
use super::client_args::{ClientArgs, proto_duration};
use super::item_input::{item_from_json, item_from_texts};
use crate::grpc::proto::{self, lease_broker_service_client::LeaseBrokerServiceClient};

/// Add items to a queue: one given with --set, or a file of them.
///
/// A CSV file names the columns in its first line; its values are sent as text, which the database turns into the
/// columns' types, and an empty one leaves its column at the table's default. JSON lines are one object an item; what
/// JSON has no type for is written {"bytes": "base64"}, {"decimal": "12.50"} or {"timestamp": "2026-11-20T22:15:20Z"}.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker enqueue default --set payload=hello
  lease-broker enqueue events --file events.csv
  zcat events.jsonl.gz | lease-broker enqueue events --file - --format jsonl --delay 10m")]
pub(super) struct Enqueue {
    /// Queue to add to
    queue: String,
    /// Column and value of a single item; repeat it for more columns
    #[arg(long, value_name = "COLUMN=VALUE", conflicts_with = "file")]
    set: Vec<String>,
    /// File of items, or - for standard input
    #[arg(long, value_name = "FILE", required_unless_present = "set")]
    file: Option<PathBuf>,
    /// What the file holds [default: by its name]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// How long until the items are ready [default: at once]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    delay: Option<Duration>,
    /// Items of the file to leave out, from its start: those that an earlier run has added
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Items a call
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

/// Items with the line that each stands on.
type Items = Box<dyn Iterator<Item = Result<(u64, proto::NewItem), CommandError>>>;

impl Enqueue {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let client = self.client.connect(Duration::ZERO).await?;
        match self.file.clone() {
            None => self.one(client).await,
            Some(file) => self.many(client, &file).await,
        }
    }

    async fn one(self, mut client: LeaseBrokerServiceClient<Channel>) -> Result<(), CommandError> {
        let columns = self.set.iter().map(|text| {
            text.split_once('=')
                .ok_or_else(|| CommandError::usage(format!("--set {text}: must be COLUMN=VALUE")))
        });
        let mut item = item_from_texts(columns.collect::<Result<Vec<_>, _>>()?);
        item.delay = self.delay.map(proto_duration);
        let request = proto::EnqueueRequest {
            queue: self.queue,
            items: vec![item],
        };
        let keys = client.enqueue(request).await?.into_inner().keys;
        let row = |key| Map::from_iter([("key".to_owned(), json!(key))]);
        self.client
            .output
            .print(&keys.iter().map(row).collect::<Vec<_>>(), "");
        Ok(())
    }

    async fn many(
        self,
        mut client: LeaseBrokerServiceClient<Channel>,
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
                .map_err(|failure| self.stopped(failure, added))?;
            if batch.is_empty() {
                break;
            }
            let (lines, batch): (Vec<u64>, Vec<_>) = batch.into_iter().unzip();
            let count = batch.len() as u64;
            let request = proto::EnqueueRequest {
                queue: self.queue.clone(),
                items: batch,
            };
            let enqueued = client.enqueue(request).await;
            enqueued.map_err(|status| self.stopped(on_line(status, &lines), added))?;
            added += count;
            bar.set_message(format!("{added} items"));
        }
        bar.finish_and_clear();
        let row = Map::from_iter([("added".to_owned(), json!(added))]);
        self.client.output.print(&[row], "");
        Ok(())
    }

    /// Says what was added before it stopped, and how to go on.
    fn stopped(&self, failure: CommandError, added: u64) -> CommandError {
        let done = self.skip + added;
        failure.with_context(format!(
            "{added} items were added, and none from there on; once mended, go on with --skip {done}"
        ))
    }

    fn read(&self, file: &PathBuf, bar: &ProgressBar) -> Result<Items, CommandError> {
        let place = file.display().to_string();
        let input: Box<dyn Read> = if place == "-" {
            Box::new(io::stdin())
        } else {
            let file = File::open(file);
            Box::new(file.map_err(|error| CommandError::io(format!("{place}: {error}")))?)
        };
        let input = BufReader::new(bar.wrap_read(input));
        let by_name = file.extension().and_then(|extension| extension.to_str());
        let delay = self.delay.map(proto_duration);
        let format = match (self.format, by_name) {
            (Some(format), _) => format,
            (None, Some("csv")) => Format::Csv,
            (None, Some("jsonl" | "ndjson" | "json")) => Format::Jsonl,
            (None, _) => {
                return Err(CommandError::usage(format!(
                    "{place}: say --format csv or --format jsonl"
                )));
            }
        };
        let items = match format {
            Format::Csv => csv(input, &place)?,
            Format::Jsonl => jsonl(input, &place),
        };
        Ok(Box::new(items.map(move |item| {
            item.map(|(line, item)| (line, proto::NewItem { delay, ..item }))
        })))
    }
}

fn csv(input: impl Read + 'static, place: &str) -> Result<Items, CommandError> {
    let place = place.to_owned();
    let mut reader = csv::Reader::from_reader(input);
    let columns = reader
        .headers()
        .map_err(|error| CommandError::failed(format!("{place}: {error}")))?
        .clone();
    let items = reader.into_records().map(move |record| {
        let record = record.map_err(|error| CommandError::failed(format!("{place}: {error}")))?;
        let line = record.position().map_or(0, csv::Position::line);
        let named = columns
            .iter()
            .zip(&record)
            .filter(|(_, value)| !value.is_empty());
        Ok((line, item_from_texts(named)))
    });
    Ok(Box::new(items))
}

fn jsonl(input: impl BufRead + 'static, place: &str) -> Items {
    let place = place.to_owned();
    let lines = (1..).zip(input.lines());
    Box::new(lines.filter_map(move |(line, text)| {
        let item = || {
            let text = text.map_err(|error| CommandError::io(error.to_string()))?;
            // Some editors start a file with a byte order mark; the CSV reader knows it too.
            let text = text.trim_start_matches('\u{feff}');
            if text.trim().is_empty() {
                return Ok(None);
            }
            let json: Json = serde_json::from_str(text)
                .map_err(|error| CommandError::failed(format!("not JSON: {error}")))?;
            item_from_json(&json)
                .map(Some)
                .map_err(CommandError::failed)
        };
        match item() {
            Ok(item) => item.map(|item| Ok((line, item))),
            Err(failure) => Some(Err(failure.with_context(format!("{place}:{line}")))),
        }
    }))
}

/// Puts the line of the item that was refused before what is wrong with it.
fn on_line(status: tonic::Status, lines: &[u64]) -> CommandError {
    let place = status
        .get_details_bad_request()
        .and_then(|request| {
            request
                .field_violations
                .first()
                .map(|field| field.field.clone())
        })
        .and_then(|field| {
            let number = field.strip_prefix("items[")?.split_once(']')?.0;
            lines.get(number.parse::<usize>().ok()?).copied()
        });
    let failure = CommandError::from(status);
    match place {
        Some(line) => failure.with_context(format!("line {line}")),
        None => failure,
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
