//! Detects that another program has deleted, replaced or overwritten the database file or its write-ahead log while the store has it
//! open.
//!
//! On Unix a deleted file exists until the last process closes it, and SQLite does not notice. Brokers that start later would
//! create a new log, and would not see the changes in the old one. SQLite mixes an overwritten file with the pages that it knows. So
//! the store stops writing.

use std::cell::{Cell, RefCell};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::companion::companion;
use super::generation::FileGeneration;
use super::lock_holder::WriteLock;
use crate::StoreError;

/// The shortest time between two checks. A check costs about as much as a small read.
const INTERVAL: Duration = Duration::from_millis(100);

/// The database file and its log, as they were when the store first saw them.
pub(super) struct OpenFiles {
    pub(super) write_lock: WriteLock,
    files: [OpenFile; 2],
    generation: FileGeneration,
    last_check: Cell<Option<Instant>>,
    /// The error of the check that failed. No later operation begins.
    refused: RefCell<Option<StoreError>>,
}

struct OpenFile {
    name: &'static str,
    path: PathBuf,
    /// Device and inode. `None`: the file did not exist yet.
    identity: Cell<Option<(u64, u64)>>,
}

impl OpenFile {
    /// Returns whether the file is another one than before, or is gone.
    fn is_lost(&self) -> bool {
        let present = std::fs::metadata(&self.path).ok();
        let present = present.map(|file| (file.dev(), file.ino()));
        match self.identity.get() {
            None => {
                self.identity.set(present);
                false
            }
            known => known != present,
        }
    }
}

impl OpenFiles {
    /// Remembers the files of an open connection. A database in memory has none.
    pub(super) fn new(connection: &Connection) -> Self {
        let database = PathBuf::from(connection.path().unwrap_or_default());
        let file = |name, suffix| {
            let file = OpenFile {
                name,
                path: companion(&database, suffix).into(),
                identity: Cell::new(None),
            };
            file.is_lost();
            file
        };
        Self {
            files: [
                file("the database file", ""),
                file("the write-ahead log (-wal)", "-wal"),
            ],
            write_lock: WriteLock::of(&database),
            generation: FileGeneration::new(connection),
            last_check: Cell::new(None),
            refused: RefCell::new(None),
        }
    }

    /// Checks the files, unless the last check was a moment ago. When a file is found to be lost, the changes in the log are
    /// copied to the database file once.
    ///
    /// # Errors
    /// [`StoreError::Io`] from the first check on that finds a file deleted, replaced or overwritten.
    pub(super) fn check(&self, connection: &Connection) -> Result<(), StoreError> {
        if let Some(error) = &*self.refused.borrow() {
            return Err(error.clone());
        }
        let now = Instant::now();
        let is_recent = |last: Instant| now.duration_since(last) < INTERVAL;
        if self.last_check.get().is_some_and(is_recent) {
            return Ok(());
        }
        self.last_check.set(Some(now));
        if let Some(lost) = self.files.iter().find(|file| file.is_lost()) {
            return Err(self.refuse_lost(lost.name, connection));
        }
        let checked = self.generation.check(connection);
        checked.inspect_err(|error| {
            // SQLite would copy the log into the overwritten file when the broker stops.
            let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            self.refuse(error);
        })
    }

    /// Refuses every later operation with this error.
    pub(super) fn refuse(&self, error: &StoreError) {
        tracing::error!(%error, "database refused");
        self.refused.replace(Some(error.clone()));
    }

    fn refuse_lost(&self, name: &'static str, connection: &Connection) -> StoreError {
        // The open log still has the changes. If they cannot be copied now, SQLite copies them when the broker stops.
        let copied =
            connection.pragma_query_value(None, "wal_checkpoint", |row| row.get::<_, i64>(0));
        tracing::error!(file = name, ?copied, "file deleted or replaced");
        let error = StoreError::Io(format!(
            "{name} was deleted or replaced while the broker had it open; stop all brokers on the file, check it with \
             `sqlite3 FILE 'PRAGMA integrity_check'`, run `lease-broker restore --in-place` if it is an older copy \
             (docs/backup.md), and start them again"
        ));
        self.refused.replace(Some(error.clone()));
        error
    }
}
