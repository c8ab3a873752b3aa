//! `demo --keep`: a broker with its dashboard, and workers with something to do, until the user stops them.
//!
//! The broker is a process of its own, so that it is the same as in production. The demo adds rows to the table as any other program
//! does.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::args::Demo;
use super::programs::{BuiltIn, start_built_in};
use super::service::config_file;
use super::table;
use super::worker::Role;
use super::worker_process::WorkerProcess;
use crate::cli::CommandError;
use crate::cli::output::print_line;
use crate::cli::stop_requests::StopRequests;

/// The interval at which rows are added.
const INTERVAL: Duration = Duration::from_secs(1);
/// The numbers of rows that are added at these intervals, in turn. They rise and fall, as real work does.
const ROWS: [u32; 12] = [120, 180, 270, 360, 450, 510, 540, 480, 390, 300, 210, 150];
/// The number of workers. With more of them, items would hardly be seen in the state leased.
const WORKERS: u32 = 2;
/// The time for which the broker can start and stop.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves the table of a demo that has ended, until a signal asks to stop. `events`: the number of its rows.
///
/// # Errors
/// A process cannot be started, or ends by itself.
pub(super) async fn serve(
    demo: &Demo,
    file: &Path,
    events: u64,
    folder: &TempDir,
    stop: &mut StopRequests,
) -> Result<(), CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::io(error.to_string());
    let mut broker = KeptBroker::start(file, &config_file(folder)).await?;
    let workers = start_workers(demo, &broker.address)?;
    print_line!("\ndashboard: {}", broker.dashboard);
    print_line!("rows are added and completed all the time; Ctrl-C ends the demo");
    let mut last = u32::try_from(events).unwrap_or(u32::MAX);
    for rows in ROWS.iter().cycle() {
        tokio::select! {
            () = stop.next() => break,
            status = broker.child.wait() => {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                return Err(CommandError::failed(format!("demo: FAILED the broker ended: {status}")));
            }
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let (file, first) = (file.to_owned(), last.saturating_add(1));
        last = last.saturating_add(*rows);
        let insert = move || table::insert_events(&file, first..=last);
        let inserted = tokio::task::spawn_blocking(insert).await;
        inserted.map_err(|error| failed(&error))??;
    }
    print_line!("stopping");
    stop_workers(workers).await;
    broker.stop().await
}

/// Starts the workers, which also let some rows fail, and the transfer worker. Their journals are not read.
fn start_workers(demo: &Demo, address: &str) -> Result<Vec<WorkerProcess>, CommandError> {
    let start = |name: String, role: Role| {
        start_built_in(&BuiltIn {
            name,
            role,
            address: address.to_owned(),
            batch: demo.batch.min(20),
            journal: PathBuf::from("/dev/null"),
            lets_rows_fail: true,
        })
    };
    let workers = (1..=WORKERS).map(|n| start(format!("worker-{n}"), Role::Process));
    let transfer = std::iter::once_with(|| start("transfer".to_owned(), Role::Transfer));
    workers.chain(transfer).collect()
}

/// Tells all workers to finish their batches, and waits for them.
async fn stop_workers(mut workers: Vec<WorkerProcess>) {
    for worker in &mut workers {
        drop(worker.child.stdin.take());
    }
    for worker in &mut workers {
        // One that is too slow is killed when it is dropped.
        let _ = tokio::time::timeout(PROCESS_TIMEOUT, worker.child.wait()).await;
    }
}

/// A broker process with an admin port.
struct KeptBroker {
    child: Child,
    address: String,
    /// The address of the dashboard.
    dashboard: String,
}

impl KeptBroker {
    async fn start(file: &Path, config: &Path) -> Result<Self, CommandError> {
        let failed = |error: &dyn std::fmt::Display| {
            CommandError::io(format!("cannot start the broker: {error}"))
        };
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut command = Command::new(program);
        let settings = std::env::vars_os().map(|(name, _)| name);
        for name in settings.filter(|name| name.to_string_lossy().starts_with("LEASE_BROKER_")) {
            command.env_remove(name);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn"]);
        command.arg("--store").arg(file).arg("--config").arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // Ctrl-C tells the demo, which tells the broker. A second signal would end it at once.
        let child = command.process_group(0).kill_on_drop(true).spawn();
        let mut child = child.map_err(|error| failed(&error))?;
        let output = child.stdout.take().ok_or_else(|| failed(&"no output"))?;
        let mut lines = BufReader::new(output).lines();
        let announced = async {
            let mut address = String::new();
            while let Some(line) = lines.next_line().await.map_err(|error| failed(&error))? {
                if let Some((_, rest)) = line.split_once("listens on ") {
                    let end = rest.find(',').unwrap_or(rest.len());
                    rest[..end].clone_into(&mut address);
                }
                if let Some(dashboard) = line.strip_prefix("admin port: ") {
                    return Ok((address, dashboard.to_owned()));
                }
            }
            Err(failed(&"it ended"))
        };
        let announced = tokio::time::timeout(PROCESS_TIMEOUT, announced).await;
        let (address, dashboard) =
            announced.unwrap_or_else(|_| Err(failed(&"it did not announce itself in time")))?;
        // Without a reader, the process could not print its last lines.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self {
            child,
            address,
            dashboard,
        })
    }

    async fn stop(mut self) -> Result<(), CommandError> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id.and_then(Pid::from_raw) {
            let _ = kill_process(id, Signal::TERM);
        }
        let ended = tokio::time::timeout(PROCESS_TIMEOUT, self.child.wait()).await;
        match ended {
            Ok(Ok(_)) => Ok(()),
            _ => Err(CommandError::failed("demo: FAILED the broker did not stop")),
        }
    }
}
