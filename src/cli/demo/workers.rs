//! The demo's worker processes, as the `demo` command sees them: start, pause, resume, kill, stop, reports.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::process::{Child, Command};

use super::args::Demo;
use super::journal::{self, Entry};
use super::programs::{Programs, start_built_in};
use super::service::POLL_INTERVAL;
use super::worker::Role;
use crate::cli::CommandError;

/// The time that a worker may take to finish its batch and exit. A worker sends a call again for up to
/// [`RETRY_TIMEOUT`](super::worker::RETRY_TIMEOUT) while the store is unavailable, and a batch ends with one call.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
/// The time that the workers of other languages may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The time that the system may take to stop a process after SIGSTOP.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which the demo asks the system whether a process has stopped.
const PAUSE_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// All worker processes. The last one is the transfer worker.
pub(super) struct Workers {
    processes: Vec<WorkerProcess>,
}

/// One worker process and its journal. Dropping it kills the process.
pub(super) struct WorkerProcess {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) journal: PathBuf,
    pub(super) child: Child,
    pub(super) killed: bool,
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
        let transfer = start_built_in("transfer".to_owned(), Role::Transfer, address, 500, folder);
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

impl WorkerProcess {
    /// Starts a worker process. Closing its standard input stops it.
    pub(super) fn start(
        name: String,
        role: Role,
        mut command: Command,
        journal: PathBuf,
    ) -> Result<Self, CommandError> {
        let child = command
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| CommandError::io(format!("cannot start {name}: {error}")))?;
        Ok(Self {
            name,
            role,
            journal,
            child,
            killed: false,
        })
    }

    /// Stops the process with SIGSTOP and returns when all of its threads have stopped. Until
    /// [`resume`](Self::resume) it does not send calls or write its journal. Returns `false` if the process has exited.
    pub(super) async fn pause(&mut self) -> Result<bool, CommandError> {
        let Some(pid) = self.pid() else {
            return Ok(false);
        };
        self.signal(pid, Signal::STOP)?;
        let stopped = async {
            loop {
                // Without EXITED the call leaves the exit status for the owner of `child`.
                match waitid(
                    WaitId::Pid(pid),
                    WaitIdOptions::STOPPED | WaitIdOptions::NOHANG,
                ) {
                    Ok(Some(_)) => return Ok(true),
                    // A process that has exited can no longer stop.
                    Err(Errno::CHILD) => return Ok(false),
                    Ok(None) | Err(Errno::INTR) => {}
                    Err(error) => return Err(self.failed("cannot be waited for", error)),
                }
                tokio::time::sleep(PAUSE_POLL_INTERVAL).await;
            }
        };
        let in_time = tokio::time::timeout(PAUSE_TIMEOUT, stopped).await;
        in_time.unwrap_or_else(|_| {
            let timeout = humantime::format_duration(PAUSE_TIMEOUT);
            let text = format!("{} did not stop within {timeout} of SIGSTOP", self.name);
            Err(CommandError::io(text))
        })
    }

    /// Lets a paused process continue.
    pub(super) fn resume(&mut self) -> Result<(), CommandError> {
        match self.pid() {
            Some(pid) => self.signal(pid, Signal::CONT),
            None => Ok(()),
        }
    }

    /// Kills the process with SIGKILL, paused or not, and waits for its exit.
    pub(super) async fn kill(&mut self) -> Result<(), CommandError> {
        let killed = self.child.kill().await;
        killed.map_err(|error| self.failed("cannot be killed", error))?;
        self.killed = true;
        Ok(())
    }

    /// Returns the process id, or `None` if the process has exited and its status was read.
    fn pid(&self) -> Option<Pid> {
        let id = self.child.id()?;
        Pid::from_raw(i32::try_from(id).ok()?)
    }

    fn signal(&self, pid: Pid, signal: Signal) -> Result<(), CommandError> {
        kill_process(pid, signal).map_err(|error| self.failed("cannot be signalled", error))
    }

    fn failed(&self, failure: &str, error: impl std::fmt::Display) -> CommandError {
        CommandError::io(format!("{} {failure}: {error}", self.name))
    }
}
