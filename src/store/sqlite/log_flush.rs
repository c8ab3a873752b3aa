//! The flush of the write-ahead log: the wait until the device has what was committed.
//!
//! A commit of the writer only appends to the log, and gives up the file's write lock at once. The log is flushed afterwards,
//! while the next operations already run, also those of other brokers.
//!
//! An answer waits for a flush that began after the operation had its snapshot of the file. This holds for an operation that
//! changed nothing, too: it may have seen a commit of another broker that the device does not have yet. So after a loss of power
//! the file lacks only changes that no answer has spoken of.
//!
//! If a flush fails, nobody knows which changes the device has, and a second flush could succeed without writing them. So every
//! later flush fails too, until the broker is started again.

use std::cell::Cell;
use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

use rusqlite::Connection;

use super::companion::companion;
use crate::StoreError;

/// The log of an open file. Threads can share it.
pub(super) struct LogFlush {
    /// `None`: the database is in memory.
    log: Option<File>,
    failed: OnceLock<StoreError>,
}

impl LogFlush {
    /// Opens the log of a connection. The log exists, because the connection has written or read the file in WAL mode.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the log cannot be opened.
    pub(super) fn open(connection: &Connection) -> Result<Self, StoreError> {
        let database = connection.path().filter(|path| !path.is_empty());
        let log = database.map(|path| companion(Path::new(path), "-wal"));
        let log = log.map(|path| {
            File::open(&path).map_err(|error| {
                StoreError::Io(format!("{}: cannot be opened: {error}", path.display()))
            })
        });
        Ok(Self {
            log: log.transpose()?,
            failed: OnceLock::new(),
        })
    }

    /// Returns when the device has everything that was committed before the call.
    ///
    /// # Errors
    /// [`StoreError::Io`] from the first flush on that fails. The device may have the changes or not.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.check()?;
        let flushed = self.log.as_ref().map_or(Ok(()), File::sync_data);
        flushed.map_err(|error| {
            tracing::error!(%error, "log not flushed");
            let failed = self.failed.get_or_init(|| {
                StoreError::Io(format!(
                    "the device failed to keep the write-ahead log ({error}), so nobody knows which of the last changes it has; \
                     check the device, then start the broker again"
                ))
            });
            failed.clone()
        })
    }

    /// Returns the error of the flush that failed, if one has.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// Counts the changes that a connection has made, and the times that it saw changes of other connections.
#[derive(Default)]
pub(super) struct SeenChanges {
    count: Cell<u64>,
    /// SQLite's number of the file's content. It changes with commits of other connections only.
    version: Cell<Option<i64>>,
    /// SQLite's number of rows that this connection has changed.
    own: Cell<u64>,
}

impl SeenChanges {
    /// Looks for changes of other connections, in the present transaction if there is one. Returns true if there are some since
    /// the last look.
    pub(super) fn look(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut statement = connection.prepare_cached("PRAGMA data_version")?;
        let version = Some(statement.query_row([], |row| row.get(0))?);
        let is_new = self.version.replace(version) != version;
        self.count.update(|count| count + u64::from(is_new));
        Ok(is_new)
    }

    /// Returns the number of changes that were made or seen so far.
    pub(super) fn count(&self, connection: &Connection) -> u64 {
        let own = connection.total_changes();
        let is_new = self.own.replace(own) != own;
        self.count.update(|count| count + u64::from(is_new));
        self.count.get()
    }
}
