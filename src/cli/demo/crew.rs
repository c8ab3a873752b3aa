//! The demo's worker processes: started, one killed at work, the others dismissed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::Demo;
use super::journal::{self, Deed, Entry};
use super::worker::Role;
use crate::cli::Failure;

/// How long a worker may take to finish its batch and end.
const NOTICE: Duration = Duration::from_secs(30);

/// All workers; the last one is the transfer worker.
pub(super) struct Crew {
    members: Vec<Member>,
}

struct Member {
    name: String,
    role: Role,
    journal: PathBuf,
    process: Child,
    killed: bool,
}

/// What a worker did, by its own account.
pub(super) struct Account {
    pub(super) name: String,
    pub(super) killed: bool,
    /// Whether it moved results and processed no events.
    pub(super) transfer: bool,
    pub(super) entries: Vec<Entry>,
}

impl Crew {
    /// Starts the workers of the demo.
    pub(super) fn hire(demo: &Demo, address: SocketAddr, folder: &Path) -> Result<Self, Failure> {
        let start = |name: String, role: Role, batch: u32| {
            let journal = folder.join(format!("{name}.jsonl"));
            let failed = |error| Failure::io(format!("{name} can't be started: {error}"));
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
            Ok(Member {
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
            members: workers.chain(transfer).collect::<Result<_, Failure>>()?,
        })
    }

    /// Kills a worker that holds a batch, and returns its name; none if nobody does at the moment.
    pub(super) async fn kill_one_at_work(&mut self) -> Result<Option<String>, Failure> {
        let workers = self.members.len() - 1;
        for member in &mut self.members[..workers] {
            let at_work =
                |entries: &[Entry]| entries.last().is_some_and(|last| last.did == Deed::Claimed);
            if !member.killed && at_work(&journal::read(&member.journal)?) {
                let killed = member.process.kill().await;
                killed.map_err(|error| Failure::io(format!("{}: {error}", member.name)))?;
                member.killed = true;
                return Ok(Some(member.name.clone()));
            }
        }
        Ok(None)
    }

    /// Fails if a worker has ended that nobody killed.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        for member in self.members.iter_mut().filter(|member| !member.killed) {
            if let Ok(Some(status)) = member.process.try_wait() {
                let name = &member.name;
                return Err(Failure::refused(format!(
                    "demo: FAILED {name} ended early: {status}"
                )));
            }
        }
        Ok(())
    }

    /// Ends the workers' standard input, at which they finish, and waits for them.
    pub(super) async fn dismiss(&mut self) -> Result<(), Failure> {
        for member in &mut self.members {
            drop(member.process.stdin.take());
        }
        for member in self.members.iter_mut().filter(|member| !member.killed) {
            let ended = tokio::time::timeout(NOTICE, member.process.wait()).await;
            if !matches!(ended, Ok(Ok(_))) {
                return Err(Failure::refused(format!(
                    "demo: FAILED {} does not end",
                    member.name
                )));
            }
        }
        Ok(())
    }

    /// Returns the workers' own accounts.
    pub(super) fn accounts(&self) -> Result<Vec<Account>, Failure> {
        let account = |member: &Member| {
            Ok(Account {
                name: member.name.clone(),
                killed: member.killed,
                transfer: member.role == Role::Transfer,
                entries: journal::read(&member.journal)?,
            })
        };
        self.members.iter().map(account).collect()
    }
}
