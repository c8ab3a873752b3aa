//! The broker that the bench starts: `lease-broker serve` as a child process.
//!
//! The bench reads its log: warnings and errors go to standard error, and the event `operation_counts` holds the numbers
//! of calls and statements.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lease_broker::broker::Operation;
use lease_broker::cli::CommandError;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// Timeout for opening the store and listening.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for draining.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// The process. Killed when dropped.
pub(crate) struct ChildBroker {
    process: Child,
    pub(crate) pid: u32,
    /// Host and port.
    pub(crate) address: String,
    log: JoinHandle<Option<StatementCounts>>,
    /// Reads standard output to its end, because the broker would block on a full pipe.
    _output: JoinHandle<()>,
}

impl ChildBroker {
    /// Starts the broker with a configuration. `store`: the SQLite file to use instead of the configured one.
    pub(crate) async fn start(
        program: &Path,
        config: &Path,
        store: Option<&Path>,
    ) -> Result<Self, CommandError> {
        let failed = |error| {
            let program = program.display();
            CommandError::io(format!(
                "the broker {program} can't be started: {error}; name the program with --broker"
            ))
        };
        let mut command = Command::new(program);
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
            // Ctrl-C reaches every process of the terminal's group. In its own group, the broker keeps running until
            // the bench stops it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(pid), Some(output), Some(log)) =
            (process.id(), process.stdout.take(), process.stderr.take())
        else {
            return Err(CommandError::io("the broker ended immediately"));
        };
        let log = tokio::spawn(read_log(log));
        let mut lines = BufReader::new(output).lines();
        let first = tokio::time::timeout(START_TIMEOUT, lines.next_line()).await;
        let first = first.ok().and_then(Result::ok).flatten();
        let address = first.as_deref().and_then(|line| {
            let (_, rest) = line.split_once("listens on ")?;
            rest.split_once(',').map(|(address, _)| address)
        });
        let Some(address) = address else {
            let _ = process.kill().await;
            // Waits until the log is printed, which gives the reason.
            let _ = log.await;
            return Err(CommandError::usage("the broker did not start"));
        };
        Ok(Self {
            process,
            pid,
            address: address.to_owned(),
            log,
            _output: tokio::spawn(
                async move { while let Ok(Some(_)) = lines.next_line().await {} },
            ),
        })
    }

    /// Lets the broker drain and end. Returns the counts from its log.
    pub(crate) async fn stop(mut self) -> Result<Option<StatementCounts>, CommandError> {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // Fails only if the broker has ended already. Its exit code then shows the problem.
            let _ = kill_process(pid, Signal::TERM);
        }
        let ended = tokio::time::timeout(STOP_TIMEOUT, self.process.wait()).await;
        let Ok(status) = ended else {
            let _ = self.process.kill().await;
            return Err(CommandError::failed(format!(
                "FAILED the broker did not end within {}",
                humantime::format_duration(STOP_TIMEOUT)
            )));
        };
        let status = status.map_err(|error| CommandError::io(format!("the broker: {error}")))?;
        let statements = self.log.await.ok().flatten();
        if status.success() {
            Ok(statements)
        } else {
            Err(CommandError::failed(format!(
                "FAILED the broker ended with {status}"
            )))
        }
    }
}

/// Numbers of calls and statements by kind of operation, from the start of a broker to its end.
pub(crate) struct StatementCounts(pub(crate) Vec<(Operation, StatementCount)>);

/// Numbers for one kind of operation.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct StatementCount {
    pub(crate) calls: u64,
    pub(crate) statements: u64,
    pub(crate) items: u64,
    /// `None`: there were no calls.
    pub(crate) statements_per_call: Option<f64>,
}

impl StatementCounts {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn read(event: &Map<String, Json>) -> Self {
        let count = |operation: Operation| {
            let field = |name: &str| {
                let name = format!("{}_{name}", operation.name());
                event.get(&name).and_then(Json::as_u64).unwrap_or(0)
            };
            let (calls, statements) = (field("calls"), field("statements"));
            let count = StatementCount {
                calls,
                statements,
                items: field("items"),
                statements_per_call: (calls > 0).then(|| statements as f64 / calls as f64),
            };
            (operation, count)
        };
        Self(Operation::ALL.map(count).into())
    }
}

impl Serialize for StatementCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter();
        serializer.collect_map(entries.map(|(operation, count)| (operation.name(), count)))
    }
}

/// Returns the program that is started as the broker if none is named: the one beside this program, or else the one that
/// the `PATH` finds.
pub(crate) fn default_program() -> PathBuf {
    let name = Path::new("lease-broker");
    let beside = std::env::current_exe()
        .ok()
        .map(|program| program.with_file_name(name));
    beside
        .filter(|program| program.exists())
        .unwrap_or_else(|| name.to_owned())
}

/// Reads the log to its end.
async fn read_log(log: impl AsyncRead + Unpin) -> Option<StatementCounts> {
    let mut lines = BufReader::new(log).lines();
    let mut counts = None;
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<Map<String, Json>>(&line) {
            // Not an event of the log, but an error at the start, or a panic.
            Err(_) => eprintln!("{line}"),
            Ok(event)
                if event
                    .get("message")
                    .is_some_and(|message| message == "operation_counts") =>
            {
                counts = Some(StatementCounts::read(&event));
            }
            Ok(event) => {
                let level = event.get("level").and_then(Json::as_str);
                if matches!(level, Some("WARN" | "ERROR")) {
                    eprintln!("broker: {line}");
                }
            }
        }
    }
    counts
}
