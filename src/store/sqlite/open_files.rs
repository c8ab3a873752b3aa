//! Detects that another program has deleted or replaced the database file or its write-ahead log while the store has it open.
//!
//! On Unix a deleted file exists until the last process closes it, and SQLite does not notice. Brokers that start later would
//! create a new log, and would not see the changes in the old one. So the store stops writing.

use std::cell::Cell;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::companion::companion;
use crate::StoreError;

/// The shortest time between two checks. A check costs about as much as a small read.
const INTERVAL: Duration = Duration::from_millis(100);

/// The database file and its log, as they were when the store first saw them.
pub(super) struct OpenFiles {
    files: [OpenFile; 2],
    last_check: Cell<Option<Instant>>,
    /// The name of the file that was found to be deleted or replaced.
    lost: Cell<Option<&'static str>>,
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
        let database = Path::new(connection.path().unwrap_or_default());
        let file = |name, suffix| {
            let file = OpenFile {
                name,
                path: companion(database, suffix).into(),
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
            last_check: Cell::new(None),
            lost: Cell::new(None),
        }
    }

    /// Checks the files, unless the last check was a moment ago. When a file is found to be lost, the changes in the log are
    /// copied to the database file once.
    ///
    /// # Errors
    /// [`StoreError::Io`] from the first check on that finds a file deleted or replaced.
    pub(super) fn check(&self, connection: &Connection) -> Result<(), StoreError> {
        if self.lost.get().is_none() {
            let now = Instant::now();
            let is_recent = |last: Instant| now.duration_since(last) < INTERVAL;
            if self.last_check.get().is_some_and(is_recent) {
                return Ok(());
            }
            self.last_check.set(Some(now));
            let lost = self.files.iter().find(|file| file.is_lost());
            let Some(lost) = lost else {
                return Ok(());
            };
            self.lost.set(Some(lost.name));
            // The open log still has the changes. If they cannot be copied now, SQLite copies them when the broker stops.
            let copied =
                connection.pragma_query_value(None, "wal_checkpoint", |row| row.get::<_, i64>(0));
            tracing::error!(file = lost.name, ?copied, "file deleted or replaced");
        }
        match self.lost.get() {
            None => Ok(()),
            Some(name) => Err(StoreError::Io(format!(
                "{name} was deleted or replaced while the broker had it open; stop all brokers on the file, check it with \
                 `sqlite3 FILE 'PRAGMA integrity_check'`, and start them again"
            ))),
        }
    }
}
