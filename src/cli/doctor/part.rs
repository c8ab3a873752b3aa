//! Runs checks that can hang, such as a read of a device that does not answer, in a process of their own.
//!
//! A thread would not do: the system cannot end a process while one of its threads waits for a device, so the command would print
//! its page and never return to the shell.

use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::finding::{Finding, Verdict};
use super::{database, sqlite_file};
use crate::cli::output::{format_duration, print_line};
use crate::config::Config;

/// The checks that one process makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    File,
    Database,
}

impl Part {
    /// Makes the checks, in the process that [`Part::run`] has started. Prints each finding as a line of JSON.
    pub(super) fn check(self, config: &Config) {
        let send = |finding: Finding| {
            if let Ok(line) = serde_json::to_string(&finding) {
                print_line!("{line}");
            }
        };
        match self {
            Self::File => sqlite_file::check(&config.store.path, &send),
            Self::Database => database::check(config, &send),
        }
    }

    /// Runs this program once more, with the same arguments, for these checks. Returns the findings of the time limit.
    pub(super) async fn run(self, limit: Duration) -> Vec<Finding> {
        let problem = |detail| Finding::broker(self.name(), Verdict::Problem, detail);
        let mut child = match self.start() {
            Ok(child) => child,
            Err(error) => return vec![problem(format!("cannot start the check: {error}"))],
        };
        let mut findings = Vec::new();
        match tokio::time::timeout(limit, read_findings(&mut child, &mut findings)).await {
            Ok(Ok(())) => {}
            Ok(Err(end)) => findings.push(problem(end)),
            Err(_) => {
                // It ends when the device answers.
                let _ = child.start_kill();
                let limit = format_duration(limit);
                findings.push(match findings.last() {
                    None => problem(format!("no answer within {limit}")),
                    Some(last) => {
                        let detail =
                            format!("no answer within {limit} after the check {:?}", last.check);
                        Finding::broker("other checks", Verdict::Problem, detail)
                    }
                });
            }
        }
        findings
    }

    fn start(self) -> std::io::Result<Child> {
        let part = self.to_possible_value();
        let part = part.as_ref().map_or("", |part| part.get_name());
        Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .args(["--part", part])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    }

    fn name(self) -> &'static str {
        match self {
            Self::File => "file system",
            Self::Database => "database",
        }
    }
}

/// Reads findings until the process ends. The error says how it has ended, if not well.
async fn read_findings(child: &mut Child, findings: &mut Vec<Finding>) -> Result<(), String> {
    if let Some(output) = child.stdout.take() {
        let mut lines = BufReader::new(output).lines();
        while let Some(line) = lines.next_line().await.map_err(|error| error.to_string())? {
            findings.push(serde_json::from_str(&line).map_err(|error| error.to_string())?);
        }
    }
    let end = child.wait().await.map_err(|error| error.to_string())?;
    if end.success() {
        Ok(())
    } else {
        Err(format!("the check ended with {end}"))
    }
}
