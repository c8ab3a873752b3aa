//! A broker of the bench's own: `serve` as a process of its own, which ends with the bench.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid as SystemPid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::child_log::{self, Served};
use super::usage::Pid;
use crate::cli::CommandError;

/// How long it may take to open its store and listen.
const START: Duration = Duration::from_secs(60);
/// How long it may take to drain.
const NOTICE: Duration = Duration::from_secs(60);

/// The process.
pub(super) struct ChildBroker {
    process: Child,
    pub(super) pid: Pid,
    pub(super) address: String,
    log: JoinHandle<Option<Served>>,
    /// What it prints is read to its end, so that it never waits for a reader.
    _announcements: JoinHandle<()>,
}

impl ChildBroker {
    /// Starts it with a configuration, on `store` if that is a file.
    pub(super) async fn start(config: &Path, store: Option<&Path>) -> Result<Self, CommandError> {
        let failed = |error| CommandError::io(format!("a broker can't be started: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "info"])
            .arg("--config")
            .arg(config);
        if let Some(store) = store {
            command.arg("--store").arg(store);
        }
        let mut process = command
            .env("LEASE_BROKER_LOG__FORMAT", "json")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C is for the bench, which then ends it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(id), Some(out), Some(err)) =
            (process.id(), process.stdout.take(), process.stderr.take())
        else {
            return Err(CommandError::io("the broker ended at once"));
        };
        let log = tokio::spawn(child_log::read(err));
        let mut lines = BufReader::new(out).lines();
        let first = tokio::time::timeout(START, lines.next_line()).await;
        let announced = first.ok().and_then(Result::ok).flatten();
        let address = announced.as_deref().and_then(|line| {
            let (_, rest) = line.split_once("listens on ")?;
            rest.split_once(',').map(|(address, _)| address)
        });
        let Some(address) = address else {
            let _ = process.kill().await;
            // It has said why on the way.
            let _ = log.await;
            return Err(CommandError::usage("the broker did not start"));
        };
        Ok(Self {
            process,
            pid: Pid(id),
            address: format!("http://{address}"),
            log,
            _announcements: tokio::spawn(async move {
                while let Ok(Some(_)) = lines.next_line().await {}
            }),
        })
    }

    /// Lets it drain and end; returns what it says that it has served.
    pub(super) async fn stop(mut self) -> Result<Option<Served>, CommandError> {
        let id = i32::try_from(self.pid.0).ok().and_then(SystemPid::from_raw);
        if let Some(id) = id {
            // One that has ended already shows by its exit code.
            let _ = kill_process(id, Signal::TERM);
        }
        let ended = tokio::time::timeout(NOTICE, self.process.wait()).await;
        let Ok(ended) = ended else {
            let _ = self.process.kill().await;
            return Err(CommandError::failed(
                "bench: FAILED the broker does not end",
            ));
        };
        let status = ended.map_err(|error| CommandError::io(format!("the broker: {error}")))?;
        let served = self.log.await.ok().flatten();
        if status.success() {
            Ok(served)
        } else {
            Err(CommandError::failed(format!(
                "bench: FAILED the broker ended with {status}"
            )))
        }
    }
}
