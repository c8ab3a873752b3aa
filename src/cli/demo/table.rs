//! The demo's table, as a program without knowledge of leases creates it, and the configuration that adopts it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use lease_broker_store::QueueIndex;
use rusqlite::Connection;

use crate::cli::CommandError;

/// Index of the queue `rainfall`. The configuration orders queues by name.
pub(super) const EVENTS: QueueIndex = QueueIndex(1);
/// Index of the queue `outbox`.
pub(super) const OUTBOX: QueueIndex = QueueIndex(0);

/// The time that an insertion waits for a lock of the broker.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the configuration file: the adopted table, and an outbox that completions fill and a transfer worker drains. `is_kept`: the
/// table goes on to grow, so completed rows are deleted after ten minutes.
pub(super) fn config_text(lease: Duration, is_kept: bool) -> String {
    let lease = humantime::format_duration(lease);
    let deletion = if is_kept {
        "purge = true\nkeep_for = { completed = \"10m\" }\n"
    } else {
        ""
    };
    format!(
        "[queues.rainfall]
table = \"Rainfall_Events\"
writable = [\"Litres\"]
lease_duration = \"{lease}\"
max_attempts = 0
{deletion}[queues.rainfall.mirror]
ready = {{ Processed = 0 }}
completed = {{ Processed = 1 }}

[queues.outbox]
managed_columns = {{ event_id = \"integer not null\", worker = \"text\", litres = \"real\" }}
lease_duration = \"{lease}\"
max_attempts = 0
on_complete = \"delete\"
"
    )
}

/// Creates the table without rows.
pub(super) fn create(file: &Path) -> Result<(), CommandError> {
    open(file, |connection| {
        connection.execute_batch(
            "CREATE TABLE Rainfall_Events (
                Event_ID INTEGER PRIMARY KEY,
                Rainfall_ID bigint NOT NULL,
                Station varchar(40) NOT NULL,
                Measured_At datetime NOT NULL,
                Millimetres decimal(6,2) NOT NULL,
                Litres real,
                Processed bit NOT NULL DEFAULT 0
            )",
        )
    })
}

/// Inserts rows with the given values of `Event_ID`.
pub(super) fn insert_events(file: &Path, ids: RangeInclusive<u32>) -> Result<(), CommandError> {
    open(file, |connection| {
        let inserted = connection.execute(
            "WITH RECURSIVE event (id) AS (SELECT ?1 UNION ALL SELECT id + 1 FROM event WHERE id < ?2)
             INSERT INTO Rainfall_Events (Event_ID, Rainfall_ID, Station, Measured_At, Millimetres)
             SELECT id, id / 10, 'Station ' || (id % 37), datetime('2026-01-01', '+' || id || ' minutes'),
                    round((id * 7919 % 1000) / 25.0, 2)
             FROM event",
            [ids.start(), ids.end()],
        );
        inserted.map(|_| ())
    })
}

/// Opens the file with plain `SQLite`, as any program does, and runs `change`.
fn open(
    file: &Path,
    change: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<(), CommandError> {
    let changed = Connection::open(file).and_then(|connection| {
        connection.busy_timeout(LOCK_TIMEOUT)?;
        change(&connection)
    });
    changed.map_err(|error| CommandError::io(format!("{}: {error}", file.display())))
}
