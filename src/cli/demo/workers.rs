//! The demo's worker processes: started, one killed at work, the others dismissed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::Demo;
use super::journal::{self, Action, Entry};
use super::worker::Role;
use crate::cli::CommandError;

/// How long a worker may take to finish its batch and end.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// All workers; the last one is the transfer worker.
pub(super) struct Workers {
    workers: Vec<Worker>,
}

struct Worker {
    name: String,
    role: Role,
    journal: PathBuf,
    process: Child,
    killed: bool,
}

/// What a worker action, by its own report.
pub(super) struct WorkerReport {
    pub(super) name: String,
    pub(super) killed: bool,
    /// Whether it moved results and processed no events.
    pub(super) transfer: bool,
    pub(super) entries: Vec<Entry>,
}

impl Workers {
    /// Starts the workers of the demo.
    pub(super) fn start(
        demo: &Demo,
        address: SocketAddr,
        folder: &Path,
    ) -> Result<Self, CommandError> {
        let start = |name: String, role: Role, batch: u32| {
            let journal = folder.join(format!("{name}.jsonl"));
            let failed = |error| CommandError::io(format!("{name} can't be started: {error}"));
            let process = Command::new(std::env::current_exe().map_err(failed)?)
                .args(["demo-worker", "--role", role.name(), "--name", &name])
                .args(["--address", &format!("http://{address}")])
                .args(["--batch", &batch.to_string()])
                .arg("--journal")
                .arg(&journal)
                .stdin(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .map_err(failed)?;
            Ok(Worker {
                name,
                role,
                journal,
                process,
                killed: false,
            })
        };
        let workers =
            (1..=demo.workers).map(|n| start(format!("worker-{n}"), Role::Process, demo.batch));
        let transfer = std::iter::once_with(|| start("transfer".to_owned(), Role::Transfer, 500));
        Ok(Self {
            workers: workers
                .chain(transfer)
                .collect::<Result<_, CommandError>>()?,
        })
    }

    /// Kills a worker that holds a batch, and returns its name; none if nobody does at the moment.
    pub(super) async fn kill_one_at_work(&mut self) -> Result<Option<String>, CommandError> {
        let workers = self.workers.len() - 1;
        for worker in &mut self.workers[..workers] {
            let at_work = |entries: &[Entry]| {
                entries
                    .last()
                    .is_some_and(|last| last.action == Action::Claimed)
            };
            if !worker.killed && at_work(&journal::read(&worker.journal)?) {
                let killed = worker.process.kill().await;
                killed.map_err(|error| CommandError::io(format!("{}: {error}", worker.name)))?;
                worker.killed = true;
                return Ok(Some(worker.name.clone()));
            }
        }
        Ok(None)
    }

    /// Fails if a worker has ended that nobody killed.
    pub(super) fn check(&mut self) -> Result<(), CommandError> {
        for worker in self.workers.iter_mut().filter(|worker| !worker.killed) {
            if let Ok(Some(status)) = worker.process.try_wait() {
                let name = &worker.name;
                return Err(CommandError::failed(format!(
                    "demo: FAILED {name} ended early: {status}"
                )));
            }
        }
        Ok(())
    }

    /// Ends the workers' standard input, at which they finish, and waits for them.
    pub(super) async fn stop(&mut self) -> Result<(), CommandError> {
        for worker in &mut self.workers {
            drop(worker.process.stdin.take());
        }
        for worker in self.workers.iter_mut().filter(|worker| !worker.killed) {
            let ended = tokio::time::timeout(STOP_TIMEOUT, worker.process.wait()).await;
            if !matches!(ended, Ok(Ok(_))) {
                return Err(CommandError::failed(format!(
                    "demo: FAILED {} does not end",
                    worker.name
                )));
            }
        }
        Ok(())
    }

    /// Returns the workers' own reports.
    pub(super) fn reports(&self) -> Result<Vec<WorkerReport>, CommandError> {
        let report = |worker: &Worker| {
            Ok(WorkerReport {
                name: worker.name.clone(),
                killed: worker.killed,
                transfer: worker.role == Role::Transfer,
                entries: journal::read(&worker.journal)?,
            })
        };
        self.workers.iter().map(report).collect()
    }
}
