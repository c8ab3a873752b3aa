//! A connection that only reads, and the way in which it opens the file.
//!
//! A file in WAL mode has two companions: the log (`-wal`) and the index of the log (`-shm`). While a program uses the file, they
//! exist, and SQLite reads the file with their help. It can do so without the right to write.
//!
//! If no program uses the file, SQLite would create both for a reader, too. In a folder without write permission that fails, and
//! elsewhere they could belong to a user whose files the broker may not write. The file is complete then, so it is read alone
//! (`immutable`). A program can begin to use it meanwhile. The reader notices this after each read, and repeats the read with the
//! companions.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::companion::companion;
use super::connection::{open_alone, open_to_read};
use super::log_flush::{LogFlush, SeenChanges};
use crate::StoreError;

/// The number of steps of a statement between two looks at the clock. It is about a millisecond.
const STEPS: i32 = 10_000;

/// A connection for reads.
pub(super) struct ReadConnection {
    connection: Connection,
    path: PathBuf,
    /// The file as it was when it was opened alone. `None`: SQLite's locks protect the reads.
    alone: Option<FileStamp>,
    seen: SeenChanges,
}

impl ReadConnection {
    /// Opens the file for reads only.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        if path.is_dir() {
            let path = path.display();
            return Err(StoreError::Io(format!(
                "{path}: is a folder, and no database file"
            )));
        }
        match FileStamp::of_unused(path) {
            Some(stamp) => Ok(Self {
                connection: open_alone(path, &uri(path))?,
                path: path.to_owned(),
                alone: Some(stamp),
                seen: SeenChanges::default(),
            }),
            None => Ok(Self::over(open_shared(path)?, path)),
        }
    }

    /// Returns a connection for reads over one that is open.
    pub(super) fn over(connection: Connection, path: &Path) -> Self {
        Self {
            connection,
            path: path.to_owned(),
            alone: None,
            seen: SeenChanges::default(),
        }
    }

    /// Returns the connection for a few reads at once. They do not notice that another program begins to use the file.
    pub(super) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Passes the connection to `work`, which returns it. Used while the file is opened.
    pub(super) fn try_map<T>(
        self,
        work: impl FnOnce(Connection) -> Result<(Connection, T), StoreError>,
    ) -> Result<(Self, T), StoreError> {
        let (connection, result) = work(self.connection)?;
        Ok((Self { connection, ..self }, result))
    }

    /// Runs a read, and runs it again if another program has begun to use the file.
    pub(super) fn read<T>(
        &mut self,
        read: impl Fn(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let result = read(&self.connection);
        if self.alone.is_none() || self.alone == FileStamp::of_unused(&self.path) {
            return result;
        }
        *self = Self::over(open_shared(&self.path)?, &self.path);
        read(&self.connection)
    }

    /// Does the same as [`Self::read`]. Statements that run when `limit` has passed are ended.
    pub(super) fn read_within<T>(
        &mut self,
        limit: Option<Duration>,
        read: impl Fn(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Some(limit) = limit else {
            return self.read(read);
        };
        self.end_statements_at(Some(Instant::now() + limit))?;
        let found = self.read(read);
        self.end_statements_at(None)?;
        found
    }

    /// Ends each statement that runs at this time or later. `None`: a statement can take any time.
    fn end_statements_at(&mut self, end: Option<Instant>) -> Result<(), StoreError> {
        let is_late = end.map(|end| move || Instant::now() >= end);
        self.connection.progress_handler(STEPS, is_late)?;
        Ok(())
    }

    /// Returns when the device has all changes that reads have seen.
    pub(super) fn flush_seen(&self, log: &LogFlush) -> Result<(), StoreError> {
        if self.seen.look(&self.connection)? {
            log.flush()
        } else {
            log.check()
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether other programs use the file, or may use it.
    pub(super) fn is_shared(&self) -> bool {
        self.alone.is_none()
    }
}

fn open_shared(path: &Path) -> Result<Connection, StoreError> {
    open_to_read(path).map_err(|error| match error {
        StoreError::Io(_) if has_log_without_index(path) => {
            let path = path.display();
            StoreError::Io(format!(
                "{path}: the log {path}-wal has changes, and its index {path}-shm is missing and cannot be created in this folder; \
                 copy the file and its log to a folder that you may write to, and read the copy"
            ))
        }
        StoreError::Unavailable(outage) => StoreError::unavailable(format!(
            "{}: another program has locked the file, also for readers (BEGIN EXCLUSIVE without WAL mode, or PRAGMA locking_mode = \
             exclusive): {outage}",
            path.display()
        )),
        error => error,
    })
}

/// Returns the URI that opens the file alone.
fn uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(byte));
            }
            _ => {
                let _ = write!(uri, "%{byte:02x}");
            }
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// Properties of a file that change when a program writes it.
#[derive(PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl FileStamp {
    /// Returns the stamp of a file in WAL mode that no program uses. `None`: a program uses it, or it cannot be told.
    fn of_unused(path: &Path) -> Option<Self> {
        // SQLite looks for the companions beside the file that a link names.
        let path = fs::canonicalize(path).ok()?;
        let is_unused = is_in_wal_mode(&path).ok()?
            && is_missing(companion(&path, "-shm").as_ref())
            && log_is_empty(&path);
        let file = fs::metadata(&path).ok().filter(|_| is_unused)?;
        Some(Self {
            inode: file.ino(),
            length: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
        })
    }
}

/// Reads the file's journal mode from its header ("The Database File Format", section 1.3.3).
pub(super) fn is_in_wal_mode(path: &Path) -> io::Result<bool> {
    let mut header = [0; 20];
    match File::open(path)?.read_exact(&mut header) {
        Ok(()) => Ok(header.starts_with(b"SQLite format 3\0") && header[18..] == [2, 2]),
        // A new file is empty.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_missing(path: &Path) -> bool {
    matches!(fs::metadata(path), Err(error) if error.kind() == ErrorKind::NotFound)
}

fn log_is_empty(path: &Path) -> bool {
    match fs::metadata(companion(path, "-wal")) {
        Ok(log) => log.len() == 0,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

fn has_log_without_index(path: &Path) -> bool {
    fs::canonicalize(path)
        .is_ok_and(|path| !log_is_empty(&path) && is_missing(companion(&path, "-shm").as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutageCause;

    #[test]
    fn statement_that_takes_too_long_is_ended() {
        const ENDLESS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

        let connection = Connection::open_in_memory().expect("a database");
        let mut connection = ReadConnection::over(connection, Path::new(":memory:"));
        let read = |sql: &'static str| {
            move |connection: &Connection| -> Result<i64, StoreError> {
                let transaction = connection.unchecked_transaction()?;
                let number = transaction.query_row(sql, [], |row| row.get(0))?;
                transaction.commit()?;
                Ok(number)
            }
        };
        let limit = Some(Duration::from_millis(10));
        let Err(StoreError::Unavailable(outage)) = connection.read_within(limit, read(ENDLESS))
        else {
            panic!("it has no end");
        };
        assert_eq!(outage.cause, OutageCause::NoAnswer, "{outage}");
        // The limit has passed, and counts for no other statement.
        let short = ENDLESS.replace("FROM n)", "FROM n WHERE i < 1000000)");
        let number = connection.read(read(short.leak()));
        assert_eq!(number, Ok(1_000_000));
    }
}
