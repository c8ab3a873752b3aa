//! A worker process of the demo, a program of the worker library for Rust. Each completion writes the result into its row and adds it to
//! the outbox, in one transaction.
//!
//! The worker ends when its standard input is closed, also because the demo was killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lease_broker_client::{
    BatchDone, ColumnError, DeadLetter, Done, Event, EventName, HandlerError, Item, NewItem,
    Worker, WorkerError,
};
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;

use super::journal::{Action, Journal};
use crate::cli::CommandError;
use crate::cli::output::note;

/// The simulated work on one row.
const WORK_PER_ITEM: Duration = Duration::from_millis(3);
/// The time that a batch has to end when the worker stops.
const GRACE: Duration = Duration::from_secs(5);

/// Claims and completes items of the demo until standard input is closed
#[derive(Debug, Args)]
pub(in crate::cli) struct DemoWorker {
    #[arg(long)]
    address: String,
    #[arg(long)]
    name: String,
    #[arg(long)]
    batch: usize,
    #[arg(long)]
    journal: PathBuf,
    #[arg(long, value_enum)]
    role: Role,
    /// Let one row in a thousand fail for good at its first attempt
    #[arg(long)]
    lets_rows_fail: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// Processes the rows of the table and adds a result to the outbox for each.
    Process,
    /// Moves the results from the outbox to their destination.
    Transfer,
}

impl Role {
    /// Returns the value of `--role`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Transfer => "transfer",
        }
    }

    fn queue(self) -> &'static str {
        match self {
            Self::Process => "rainfall",
            Self::Transfer => "outbox",
        }
    }
}

impl DemoWorker {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let failed = |error: WorkerError| CommandError::unavailable(error.to_string());
        let batch = self.batch;
        let worker = Worker::new(&*self.address, self.role.queue()).worker_id(&*self.name);
        let batches = Arc::new(Batches {
            journal: Mutex::new(Journal::open(&self.journal)?),
            worker: self,
        });
        let observer = batches.clone();
        let running = worker
            .on_event(move |event| observer.record(event))
            .start_batches(batch, move |items, _| {
                let batches = batches.clone();
                async move { batches.process(&items).await }
            })
            .map_err(failed)?;
        let mut stdin = tokio::io::stdin();
        let ended = tokio::select! {
            _ = stdin.read_u8() => running.stop(GRACE).await,
            ended = running.wait() => ended,
        };
        ended.map_err(failed)
    }
}

/// Processes batches and records each step.
struct Batches {
    worker: DemoWorker,
    journal: Mutex<Journal>,
}

impl Batches {
    async fn process(&self, items: &[Item]) -> Result<BatchDone, HandlerError> {
        let mut done = BatchDone::new();
        match self.worker.role {
            Role::Process => {
                let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
                tokio::time::sleep(WORK_PER_ITEM * count).await;
                for item in items {
                    if self.lets_fail(item)? {
                        let station = item.text("Station")?;
                        let error = DeadLetter::new(format!("{station} is not calibrated"));
                        done.fail(item, error);
                    } else {
                        done.complete(item, self.result(item)?);
                    }
                }
            }
            Role::Transfer => {
                let moved = |item: &Item| Ok((key(item), item.int("event_id")?.to_string()));
                let moved: Result<Vec<_>, ColumnError> = items.iter().map(moved).collect();
                let moved = moved?.into_iter();
                self.write(|journal| journal.write_moved(moved));
            }
        }
        // Recorded first: the demo kills only a worker that has not sent the completion of its batch.
        self.write(|journal| journal.write(Action::Completing, items.iter().map(key)));
        Ok(done)
    }

    /// Returns whether a row fails. It succeeds after a redrive.
    fn lets_fail(&self, item: &Item) -> Result<bool, ColumnError> {
        let is_chosen = item.int("Event_ID")? % 1_000 == 0;
        Ok(self.worker.lets_rows_fail && item.fencing_token() == 1 && is_chosen)
    }

    /// Returns the completion of a row with its result.
    fn result(&self, item: &Item) -> Result<Done, HandlerError> {
        let millimetres: f64 = item.decimal("Millimetres")?.parse()?;
        let litres = millimetres * 1_000.0;
        let result = NewItem::new()
            .column("event_id", item.int("Event_ID")?)
            .column("worker", &*self.worker.name)
            .column("litres", litres);
        Ok(Done::new()
            .column("Litres", litres)
            .follow_up(Role::Transfer.queue(), result))
    }

    /// Records an event that concerns an item.
    fn record(&self, event: &Event) {
        let action = match event.name {
            EventName::Claimed => Action::Claimed,
            EventName::Completed => Action::Completed,
            EventName::Lost | EventName::Unknown => Action::Lost,
            _ => return,
        };
        self.write(|journal| journal.write(action, event.item.iter().map(key)));
    }

    /// Writes to the journal. Without a journal the worker is of no use to the demo, so an error ends the process.
    fn write(&self, step: impl FnOnce(&mut Journal) -> Result<(), CommandError>) {
        if let Err(error) = step(&mut self.journal.lock()) {
            note(&error.to_string());
            std::process::exit(1);
        }
    }
}

fn key(item: &Item) -> String {
    item.key().to_owned()
}
