//! A worker process, as the `demo` command sees it: start, pause, resume, kill.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::process::{Child, Command};

use super::worker::Role;
use crate::cli::CommandError;

/// The time that the system may take to stop a process after SIGSTOP.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which the demo asks the system whether a process has stopped.
const PAUSE_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// One worker process and its journal. Dropping it kills the process.
pub(super) struct WorkerProcess {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) journal: PathBuf,
    pub(super) child: Child,
    pub(super) killed: bool,
}

impl WorkerProcess {
    /// Starts a worker process in a process group of its own. Closing its standard input stops it.
    pub(super) fn start(
        name: String,
        role: Role,
        mut command: Command,
        journal: PathBuf,
    ) -> Result<Self, CommandError> {
        let child = command
            .stdin(Stdio::piped())
            .process_group(0)
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
