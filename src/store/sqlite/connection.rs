//! Opens connections to the SQLite file, with the settings that the broker needs.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{OutageCause, StoreError};

/// The number of prepared statements that a connection keeps. A queue has about a dozen, and a broker with 200 queues
/// is expected.
const MAX_CACHED_STATEMENTS: usize = 4_096;
/// The time for which an operation tries to get the write lock before it fails.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum time that a starting broker waits for others that open the file at the same time.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the file for reading and writing, in WAL mode. A commit returns after the data has been written to the device.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    open_with(path, path, flags, configure)
}

/// Opens the file for reading only. The file does not change, not even its journal mode.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    open_with(path, path, flags, first_read)
}

/// Opens a file that no program uses, for reading only and without its companions. `uri` names it with `immutable=1`.
pub(super) fn open_alone(path: &Path, uri: &str) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    open_with(path, Path::new(uri), flags, first_read)
}

/// Opens a new file that another database is copied into.
pub(super) fn open_copy(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    open_with(path, path, flags, |_| Ok(()))
}

/// Reads once. SQLite finds out at the first read if the file is a database.
fn first_read(connection: &mut Connection) -> Result<(), StoreError> {
    connection.busy_handler(Some(wait_for_lock))?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(())
}

/// Opens the file, which SQLite knows as `name`. An error names `path`.
fn open_with(
    path: &Path,
    name: &Path,
    flags: OpenFlags,
    configure: impl FnOnce(&mut Connection) -> Result<(), StoreError>,
) -> Result<Connection, StoreError> {
    let open = || {
        let mut connection =
            Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        configure(&mut connection)?;
        Ok(connection)
    };
    open().map_err(|error| in_file(path, error))
}

/// Names the file in an error that SQLite reports without it.
pub(super) fn in_file(path: &Path, error: StoreError) -> StoreError {
    let path = path.display();
    match error {
        StoreError::Io(problem) => StoreError::Io(format!("{path}: {problem}")),
        StoreError::Unavailable(mut outage) => {
            outage.reason = format!("{path}: {}", outage.reason);
            StoreError::Unavailable(outage)
        }
        other => other,
    }
}

fn configure(connection: &mut Connection) -> Result<(), StoreError> {
    connection.set_prepared_statement_cache_capacity(MAX_CACHED_STATEMENTS);
    connection.busy_handler(Some(wait_for_lock))?;
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(StoreError::Io(
            "the file is read-only; the broker writes leases into it".to_owned(),
        ));
    }
    let mode = wal_mode(connection).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => StoreError::outage(
            OutageCause::Busy,
            format!("another program has a transaction open, so the file cannot be put into WAL mode ({error})"),
        ),
        _ => error.into(),
    })?;
    if mode != "wal" {
        return Err(StoreError::Io(format!(
            "the file can't be put into WAL mode (it stays in {mode}); it must be on a local file system"
        )));
    }
    connection.pragma_update(None, "synchronous", "full")?;
    // The query planner must not look at bound values. Otherwise a new value for the LIMIT of a claim makes SQLite
    // prepare the statement again. The statements name their indexes, so the plan would be the same.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The undo data of savepoints stays in memory. A file for it costs as much as the transaction itself.
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(())
}

/// Puts the file into WAL mode and returns the mode that it is in.
///
/// If two brokers open a new file at the same time, each can hold the lock that the other needs. SQLite then refuses
/// both without calling the busy handler, so the wait is here.
fn wal_mode(connection: &Connection) -> rusqlite::Result<String> {
    let deadline = Instant::now() + OPEN_TIMEOUT;
    loop {
        let mode =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0));
        match mode {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                wait_for_lock(0);
            }
            mode => return mode,
        }
    }
}

/// Sleeps for about a millisecond, and returns true if SQLite shall try again to get the lock.
///
/// SQLite's default handler sleeps longer after each try, up to 100 ms. With it, if two brokers are busy, the one that
/// had to wait once would keep waiting.
fn wait_for_lock(tries: i32) -> bool {
    thread_local! {
        /// The time of the first try. SQLite waits for one lock of a thread at a time.
        static FIRST_TRY: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    let now = Instant::now();
    let first = FIRST_TRY.get().filter(|_| tries > 0).unwrap_or(now);
    FIRST_TRY.set(Some(first));
    let micros = rand::rng().random_range(500..2_000);
    std::thread::sleep(Duration::from_micros(micros));
    now.duration_since(first) < LOCK_TIMEOUT
}
