//! Finds the process that holds a lock of SQLite on a database file.
//!
//! SQLite's locks are POSIX locks on single bytes ("The Database File Format" and "WAL-mode File Format"). The system tells who holds
//! one, also if the holder is stopped and the file hangs.

use std::fmt;
use std::fs::{File, read_to_string};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::companion::companion;
use super::held_file::HeldFile;
use crate::{OutageCause, StoreError};

/// The byte of the `-shm` file that the writer of a file in WAL mode locks.
const WRITE_LOCK: (u64, u64) = (120, 1);
/// The bytes of the database file that each process locks which has the file open: PENDING, RESERVED and SHARED.
const IN_USE: (u64, u64) = (0x4000_0000, 512);

/// A process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The id of the process. `None`: it runs in a container whose processes cannot be seen from here.
    pub process: Option<i32>,
    /// The name of its program. Empty: it is unknown.
    pub program: String,
    /// The state that `/proc` shows, such as `S`.
    pub state: Option<char>,
}

impl LockHolder {
    /// Returns a process, other than this one, that has the database file open.
    pub fn of_open_file(database: &Path) -> Option<Self> {
        let file = HeldFile::open(database).ok()?;
        Self::find(&file, IN_USE)
    }

    fn find(file: &File, (start, length): (u64, u64)) -> Option<Self> {
        let wanted = Flock {
            start,
            length,
            ..FlockType::WriteLock.into()
        };
        let process = fcntl_getlk(file, &wanted).ok()??.pid;
        let process = process.map(rustix::process::Pid::as_raw_nonzero);
        let process = process.map(std::num::NonZeroI32::get);
        let status = process.and_then(|id| read_to_string(format!("/proc/{id}/stat")).ok());
        let (program, state) = status.as_deref().and_then(parse_stat).unzip();
        Some(Self {
            process,
            program: program.unwrap_or_default().to_owned(),
            state,
        })
    }

    /// Returns the id of the process and the name of its program.
    pub fn name(&self) -> String {
        match (self.process, &*self.program) {
            (None, _) => "a process of another container".to_owned(),
            (Some(process), "") => format!("process {process}"),
            (Some(process), program) => format!("process {process} ({program})"),
        }
    }

    /// Returns whether the process is stopped by a signal or a debugger. It keeps the lock until it continues or ends.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, Some('T' | 't'))
    }
}

/// The write lock of a database file, to look at. SQLite does not know of it.
pub struct WriteLock {
    database: PathBuf,
    /// The open `-shm` file, once it was found.
    index: OnceLock<HeldFile>,
}

impl WriteLock {
    /// Looks at the lock of this file.
    pub fn of(database: &Path) -> Self {
        let lock = Self {
            database: database.to_owned(),
            index: OnceLock::new(),
        };
        // Opened now if it exists: later the device may not answer.
        lock.find_index();
        lock
    }

    fn find_index(&self) -> Option<&HeldFile> {
        if self.index.get().is_none() {
            let index = HeldFile::open(companion(&self.database, "-shm")).ok()?;
            let _ = self.index.set(index);
        }
        self.index.get()
    }

    /// Returns the process, other than this one, that holds the lock.
    pub fn holder(&self) -> Option<LockHolder> {
        LockHolder::find(self.find_index()?, WRITE_LOCK)
    }

    /// Adds to an outage the process that holds the write lock, if there is one.
    pub(super) fn name_holder(&self, error: StoreError) -> StoreError {
        match (error, self.holder()) {
            (StoreError::Unavailable(mut outage), Some(holder))
                if outage.cause == OutageCause::Busy =>
            {
                outage.reason = format!("{}; it is held by {holder}", outage.reason);
                StoreError::Unavailable(outage)
            }
            (error, _) => error,
        }
    }

    /// Looks several times, and returns the process that held the lock each time.
    pub fn settled_holder(&self, looks: u32, pause: Duration) -> Option<LockHolder> {
        let mut settled = self.holder()?;
        for _ in 1..looks {
            std::thread::sleep(pause);
            let holder = self.holder()?;
            if holder.process != settled.process {
                return None;
            }
            settled = holder;
        }
        Some(settled)
    }
}

/// Returns the name of the program and the state. The name can contain spaces and brackets.
fn parse_stat(stat: &str) -> Option<(&str, char)> {
    let (before, after) = stat.rsplit_once(") ")?;
    let (_, program) = before.split_once('(')?;
    Some((program, after.chars().next()?))
}

impl fmt::Display for LockHolder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name())?;
        let (Some(process), Some(state)) = (self.process, self.state) else {
            return Ok(());
        };
        match state {
            'T' => write!(
                out,
                ", which is stopped; continue it with `kill -CONT {process}`, or end it"
            ),
            't' => out.write_str(", which a debugger has stopped"),
            'D' => out.write_str(", which waits for a device"),
            'R' => out.write_str(", which is running"),
            'S' => out.write_str(", which is asleep, with a transaction open"),
            state => write!(out, ", in state {state}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_program_can_contain_brackets() {
        let stat = "4711 (a) R (b) T 1 4711";
        assert_eq!(parse_stat(stat), Some(("a) R (b", 'T')));
        assert_eq!(parse_stat("4711"), None);
    }
}
