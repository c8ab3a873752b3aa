//! Opens the file as every connection of the broker needs it.

use std::path::Path;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::store::StoreError;

/// How many statements a connection keeps prepared: a dozen for each of the 200 queues that a broker may well have.
const STATEMENTS: usize = 4_096;
/// How often a writer asks for the lock before it gives up: about five seconds at 1.25 ms.
const BUSY_RETRIES: i32 = 4_000;
/// How long a broker that starts waits for others that start with it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens the file in WAL mode, where a commit is on the device before it returns.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    open_with(path, flags, prepare)
}

/// Opens the file so that nothing of it is changed, not even its mode.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    open_with(path, OpenFlags::SQLITE_OPEN_READ_ONLY, |connection| {
        connection.busy_handler(Some(wait_for_lock))?;
        // A file that is no database shows at the first read.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(())
    })
}

fn open_with(
    path: &Path,
    flags: OpenFlags,
    prepare: impl FnOnce(&mut Connection) -> Result<(), StoreError>,
) -> Result<Connection, StoreError> {
    let open = || {
        let mut connection =
            Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        prepare(&mut connection)?;
        Ok(connection)
    };
    open().map_err(|error| {
        let place = path.display();
        match error {
            StoreError::Io(text) => StoreError::Io(format!("{place}: {text}")),
            StoreError::Unavailable(outage) => {
                StoreError::unavailable(format!("{place}: {outage}"))
            }
            other => other,
        }
    })
}

fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.busy_handler(Some(wait_for_lock))?;
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(StoreError::Io(
            "the file is read-only; the broker writes leases into it".to_owned(),
        ));
    }
    let mode = wal_mode(connection)?;
    if mode != "wal" {
        return Err(StoreError::Io(format!(
            "the file can't be put into WAL mode (it stays in {mode}); it must be on a local file system"
        )));
    }
    connection.pragma_update(None, "synchronous", "full")?;
    // Or a claim's LIMIT, when it is bound anew, has the statement prepared anew: its value might change the plan, which
    // the statements name themselves.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // What a savepoint may have to undo is kept in memory: a file of it costs as much as the transaction itself.
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(())
}

/// Puts the file into WAL mode and returns the mode that it is in. Where two brokers open a fresh file together, each
/// may hold what the other waits for; `SQLite` then refuses both without asking the busy handler.
fn wal_mode(connection: &Connection) -> rusqlite::Result<String> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let mode =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0));
        match mode {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < patience =>
            {
                wait_for_lock(0);
            }
            mode => return mode,
        }
    }
}

/// Asks for the lock again after about a millisecond. `SQLite`'s own handler sleeps longer each time, up to 100 ms, so
/// that of two busy brokers the one that had to wait once would wait on.
fn wait_for_lock(tries: i32) -> bool {
    let micros = rand::rng().random_range(500..2_000);
    std::thread::sleep(Duration::from_micros(micros));
    tries < BUSY_RETRIES
}
