//! `demo`: runs several worker processes on one ordinary table and kills one of them while it holds leases.
//!
//! At the end the demo reads the database and the journals that the workers wrote, and checks that every row was
//! completed exactly once.
//!
//! The result must not depend on the speed of the machine. Therefore:
//! - A worker is stopped before the demo decides whether to kill it ([`kill`]).
//! - If the rows are used up before the demo could kill a worker, it inserts more rows.
//! - Workers send a call again while the store is unavailable ([`worker`]).
//! - Timeouts only end a demo that makes no progress at all.
//!
//! A signal that asks to stop ends the processes and removes the temporary folder at any time. The processes have process groups of
//! their own, so that a key of the terminal reaches only the demo, which then ends them in order.

mod args;
mod journal;
mod keep;
mod kill;
mod language;
mod programs;
mod progress;
mod service;
mod summary;
mod table;
pub(super) mod worker;
mod worker_process;
mod workers;

use std::path::PathBuf;
use std::time::Instant;

use lease_broker_model::item_state::State;
use tempfile::TempDir;

pub(super) use self::args::Demo;
use self::programs::Programs;
use self::progress::Progress;
use self::service::{DemoService, POLL_INTERVAL, STALL_TIMEOUT};
use self::summary::Summary;
use self::workers::Workers;
use super::CommandError;
use super::output::print_line;
use super::stop_requests::StopRequests;

impl Demo {
    /// Runs the demo and prints its summary.
    ///
    /// # Errors
    /// Exit code 1 if a row was not completed exactly once, if a worker ended early, if there was no progress, or if a signal asked
    /// to stop.
    pub(super) async fn run(self) -> Result<(), CommandError> {
        if self.kill >= self.workers && self.kill > 0 {
            return Err(CommandError::usage(format!(
                "--kill {} of --workers {}: at least one worker must stay alive to finish the work",
                self.kill, self.workers
            )));
        }
        let mut stop = StopRequests::listen_to_terminal()?;
        let folder = TempDir::with_prefix("lease-broker-demo-").map_err(|error| {
            CommandError::io(format!("cannot create a temporary folder: {error}"))
        })?;
        // Without an end, the demo is dropped, which kills its processes.
        let (file, events) = tokio::select! {
            biased;
            () = stop.next() => return Err(CommandError::failed(
                "interrupted: the workers were ended, and the temporary folder was removed",
            )),
            shown = self.show(&folder) => shown?,
        };
        if self.keep {
            keep::serve(&self, &file, events, &folder, &mut stop).await?;
        }
        Ok(())
    }

    /// Shows the demo from the table to the summary. Returns the database file and the number of its rows.
    async fn show(&self, folder: &TempDir) -> Result<(PathBuf, u64), CommandError> {
        let programs = Programs::build(&self.language).await?;
        let start = Instant::now();
        let mut service = DemoService::start(self, folder).await?;
        let mut workers = Workers::start(self, &programs, service.address(), folder.path()).await?;
        let worked = self.work(&mut service, &mut workers).await;
        let stopped = workers.stop().await;
        let file = service.file().to_owned();
        let summary = Summary::read(service.events(), &workers, &file)?;
        service.stop().await;
        print_line!("\n{}", summary.table());
        worked?;
        stopped?;
        if let Some(kept) = &self.database {
            print_line!("the database is in {}", kept.display());
        }
        summary.verdict(self.kill, start.elapsed())?;
        Ok((file, summary.events()))
    }

    /// Follows the workers until every row is completed and the outbox is empty. Kills workers on the way.
    async fn work(
        &self,
        service: &mut DemoService,
        workers: &mut Workers,
    ) -> Result<(), CommandError> {
        let stall_timeout = STALL_TIMEOUT + self.lease * 10;
        let mut display = Progress::new();
        let mut kills_left = self.kill;
        let mut last_counts = (0, 0);
        let mut last_change = Instant::now();
        loop {
            let (events, outbox) = service.stats().await?;
            display.show(&events, &outbox, &service.leased_keys().await?);
            let completed = events.count_of(State::Completed);
            let outbox_items: u64 = outbox.count.iter().sum();
            if (completed, outbox_items) != last_counts {
                last_counts = (completed, outbox_items);
                last_change = Instant::now();
            } else if last_change.elapsed() > stall_timeout {
                return Err(CommandError::failed(format!(
                    "demo: FAILED no row was completed or transferred for {}",
                    humantime::format_duration(stall_timeout)
                )));
            }
            // The first kill comes when a quarter of the rows is completed, or earlier if the rows run short.
            let kill_due = completed >= service.events() / 4 || events.count_of(State::Ready) == 0;
            if kills_left > 0
                && kill_due
                && let Some(name) = kill::kill_one_holding_leases(workers, service).await?
            {
                kills_left -= 1;
                display.print(&format!("{name} was killed in the middle of a batch"));
            }
            if completed == service.events() && outbox_items == 0 {
                if kills_left == 0 {
                    display.end();
                    return Ok(());
                }
                let added = service.add_events(self.batch, self.workers).await?;
                display.print(&format!(
                    "added {added} rows: all others were completed before a worker could be killed"
                ));
            }
            workers.check()?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
