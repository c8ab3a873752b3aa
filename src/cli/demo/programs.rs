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
                start_built_in(format!("worker-{n}"), Role::Process, address, batch, folder)
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

/// Starts a worker of this program.
pub(super) fn start_built_in(
    name: String,
    role: Role,
    address: SocketAddr,
    batch: u32,
    folder: &Path,
) -> Result<WorkerProcess, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::io(format!("cannot start {name}: {error}")))?;
    let journal = folder.join(format!("{name}.jsonl"));
    let mut command = Command::new(program);
    command
        .args(["demo-worker", "--role", role.name(), "--name", &name])
        .args(["--address", &format!("http://{address}")])
        .args(["--batch", &batch.to_string()])
        .arg("--journal")
        .arg(&journal);
    WorkerProcess::start(name, role, command, journal)
}
