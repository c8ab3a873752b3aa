//! The programs that the demo runs as workers: the built-in worker, and workers that use the libraries of other languages.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::language::Language;
use super::worker::Role;
use super::worker_process::WorkerProcess;
use crate::cli::CommandError;

/// The programs that process rows. The workers take them in turn.
pub(super) struct Programs(Vec<Program>);

/// A program that becomes a worker process.
pub(super) enum Program {
    /// `demo-worker` of this program.
    BuiltIn,
    /// The worker of a language.
    Library(Language, PathBuf),
}

impl Programs {
    /// Builds the workers of these languages, and adds the built-in worker.
    pub(super) async fn build(languages: &[Language]) -> Result<Self, CommandError> {
        let mut programs = Vec::new();
        for language in languages {
            programs.push(Program::Library(*language, language.build().await?));
        }
        programs.push(Program::BuiltIn);
        Ok(Self(programs))
    }

    /// Returns the program of each worker, without end.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = &Program> {
        self.0.iter().cycle()
    }
}

impl Program {
    pub(super) fn is_built_in(&self) -> bool {
        matches!(self, Self::BuiltIn)
    }

    /// Starts worker number `n`. Its journal is written to `folder`.
    pub(super) fn start(
        &self,
        n: u32,
        address: SocketAddr,
        batch: u32,
        folder: &Path,
    ) -> Result<WorkerProcess, CommandError> {
        match self {
            Self::BuiltIn => {
                let name = format!("worker-{n}");
                start_built_in(&BuiltIn {
                    journal: folder.join(format!("{name}.jsonl")),
                    name,
                    role: Role::Process,
                    address: address.to_string(),
                    batch,
                    lets_rows_fail: false,
                })
            }
            Self::Library(language, program) => {
                let name = format!("{}-{n}", language.name());
                let mut command = Command::new(program);
                command.args([address.to_string(), name.clone(), batch.to_string()]);
                let journal = folder.join(format!("{name}.jsonl"));
                command.arg(&journal);
                WorkerProcess::start(name, Role::Process, command, journal)
            }
        }
    }
}

/// A worker of this program.
pub(super) struct BuiltIn {
    pub(super) name: String,
    pub(super) role: Role,
    /// The address and port of the broker.
    pub(super) address: String,
    pub(super) batch: u32,
    pub(super) journal: PathBuf,
    /// True: one row in a thousand fails for good at its first attempt.
    pub(super) lets_rows_fail: bool,
}

/// Starts a worker of this program.
pub(super) fn start_built_in(worker: &BuiltIn) -> Result<WorkerProcess, CommandError> {
    let name = &worker.name;
    let program = std::env::current_exe()
        .map_err(|error| CommandError::io(format!("cannot start {name}: {error}")))?;
    let mut command = Command::new(program);
    command
        .args(["demo-worker", "--role", worker.role.name(), "--name", name])
        .args(["--address", &worker.address])
        .args(["--batch", &worker.batch.to_string()])
        .arg("--journal")
        .arg(&worker.journal);
    if worker.lets_rows_fail {
        command.arg("--lets-rows-fail");
    }
    WorkerProcess::start(name.clone(), worker.role, command, worker.journal.clone())
}
