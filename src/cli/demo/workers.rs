//! All worker processes of the demo: start, stop, reports.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use super::args::Demo;
use super::journal::{self, Entry};
use super::programs::{BuiltIn, Programs, start_built_in};
use super::service::POLL_INTERVAL;
use super::worker::Role;
use super::worker_process::WorkerProcess;
use crate::cli::CommandError;

/// The time that a worker may take to finish its batch and exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
/// The time that the workers of other languages may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// All worker processes. The last one is the transfer worker.
pub(super) struct Workers {
    processes: Vec<WorkerProcess>,
}

/// The record that a worker kept of its own work.
pub(super) struct WorkerReport {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) killed: bool,
    pub(super) entries: Vec<Entry>,
}

impl Workers {
    /// Starts the workers of the demo. Their journals are written to `folder`.
    ///
    /// The workers of other languages start first, and slowly. The built-in ones start when all of those run, so that each
    /// worker gets a share of the rows.
    pub(super) async fn start(
        demo: &Demo,
        programs: &Programs,
        address: SocketAddr,
        folder: &Path,
    ) -> Result<Self, CommandError> {
        let mut workers = Self {
            processes: Vec::new(),
        };
        let turns = (1..=demo.workers).zip(programs.in_turn());
        let (built_in, libraries): (Vec<_>, Vec<_>) =
            turns.partition(|(_, program)| program.is_built_in());
        for (n, program) in libraries {
            let worker = program.start(n, address, demo.batch, folder)?;
            workers.processes.push(worker);
        }
        workers.wait_for_journals().await?;
        for (n, program) in built_in {
            let worker = program.start(n, address, demo.batch, folder)?;
            workers.processes.push(worker);
        }
        let transfer = start_built_in(&BuiltIn {
            name: "transfer".to_owned(),
            role: Role::Transfer,
            address: address.to_string(),
            batch: 500,
            journal: folder.join("transfer.jsonl"),
            lets_rows_fail: false,
        });
        workers.processes.push(transfer?);
        Ok(workers)
    }

    /// Waits until each process has created its journal, which it does as its first step.
    async fn wait_for_journals(&mut self) -> Result<(), CommandError> {
        let deadline = Instant::now() + START_TIMEOUT;
        while let Some(worker) = self
            .processes
            .iter()
            .find(|worker| !worker.journal.exists())
        {
            if Instant::now() > deadline {
                return Err(CommandError::failed(format!(
                    "demo: FAILED {} did not start within {}",
                    worker.name,
                    humantime::format_duration(START_TIMEOUT)
                )));
            }
            self.check()?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns the workers that process rows and were not killed.
    pub(super) fn alive(&mut self) -> impl Iterator<Item = &mut WorkerProcess> {
        self.processes
            .iter_mut()
            .filter(|worker| worker.role == Role::Process && !worker.killed)
    }

    /// Fails if a worker has exited that the demo did not kill.
    pub(super) fn check(&mut self) -> Result<(), CommandError> {
        for worker in self.processes.iter_mut().filter(|worker| !worker.killed) {
            if let Ok(Some(status)) = worker.child.try_wait() {
                let name = &worker.name;
                return Err(CommandError::failed(format!(
                    "demo: FAILED {name} ended early: {status}"
                )));
            }
        }
        Ok(())
    }

    /// Closes the standard input of every worker, which tells it to finish its batch and exit. Waits for all of them.
    pub(super) async fn stop(&mut self) -> Result<(), CommandError> {
        for worker in &mut self.processes {
            drop(worker.child.stdin.take());
        }
        for worker in self.processes.iter_mut().filter(|worker| !worker.killed) {
            let exited = tokio::time::timeout(STOP_TIMEOUT, worker.child.wait()).await;
            if !matches!(exited, Ok(Ok(_))) {
                return Err(CommandError::failed(format!(
                    "demo: FAILED {} did not exit within {}",
                    worker.name,
                    humantime::format_duration(STOP_TIMEOUT)
                )));
            }
        }
        Ok(())
    }

    /// Reads the journals of all workers.
    pub(super) fn reports(&self) -> Result<Vec<WorkerReport>, CommandError> {
        let report = |worker: &WorkerProcess| {
            Ok(WorkerReport {
                name: worker.name.clone(),
                role: worker.role,
                killed: worker.killed,
                entries: journal::read(&worker.journal)?,
            })
        };
        self.processes.iter().map(report).collect()
    }
}
