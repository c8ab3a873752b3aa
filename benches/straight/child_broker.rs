//! The broker of a run: adopts the table, then runs `lease-broker serve` as a child process until the run ends.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

/// The process. Killed when dropped.
pub(crate) struct Broker {
    process: Child,
    /// Kept open, because the process cannot print to a closed pipe.
    _announcements: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
    pub(crate) address: String,
}

/// Statements divided by calls, for two kinds of operation.
#[derive(Clone, Copy)]
pub(crate) struct StatementsPerCall {
    pub(crate) claim: f64,
    pub(crate) settle: f64,
}

impl Broker {
    /// Adopts the tables of a configuration and serves them.
    pub(crate) fn start(configuration: &str) -> Self {
        let folder = tempfile::TempDir::with_prefix("lease-broker-straight-");
        let folder = folder.expect("a temporary folder");
        let file = folder.path().join("queues.toml");
        let listen = "[server]\nlisten = \"127.0.0.1:0\"\n";
        std::fs::write(&file, format!("{configuration}{listen}")).expect("a configuration");
        let adopted = program(&["schema", "apply", "--config"], &file)
            .stdout(Stdio::null())
            .status();
        assert!(adopted.expect("the program").success(), "adoption failed");
        let log = File::create(folder.path().join("log")).expect("a log");
        let mut process = program(&["serve", "--log-level", "info", "--config"], &file)
            .env("LEASE_BROKER_LOG__FORMAT", "json")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the program");
        let mut announcements = BufReader::new(process.stdout.take().expect("its output"));
        let mut line = String::new();
        announcements.read_line(&mut line).expect("its output");
        let address = line.split_once("listens on ").map_or("", |(_, rest)| rest);
        let address = address.split_once(',').map_or("", |(address, _)| address);
        assert!(!address.is_empty(), "the broker did not start: {line}");
        Self {
            address: format!("http://{address}"),
            process,
            _announcements: announcements,
            folder,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Lets the broker drain and end. Returns the counts of its log.
    pub(crate) fn stop(mut self) -> StatementsPerCall {
        let id = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        kill_process(id.expect("a process"), Signal::TERM).expect("it runs");
        assert!(self.process.wait().expect("it ends").success());
        let log = std::fs::read_to_string(self.folder.path().join("log")).expect("its log");
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let mut events = events.filter(|event: &Json| event["message"] == "operation_counts");
        let counts = events.next_back().expect("a log event with the counts");
        let share = |kind: &str| {
            let count = |what| {
                counts[format!("{kind}_{what}")]
                    .as_f64()
                    .unwrap_or(f64::NAN)
            };
            count("statements") / count("calls")
        };
        StatementsPerCall {
            claim: share("claim"),
            settle: share("settle"),
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Fails if the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the command with these arguments, without settings from the environment.
fn program(arguments: &[&str], file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lease-broker"));
    command.env_clear().args(arguments).arg(file);
    command
}
