//! The demo's table, as a program that knows nothing of leases makes it, and the configuration that adopts it.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::cli::CommandError;
use crate::store::QueueIndex;

/// The queues, in the order of the configuration: by name.
pub(super) const EVENTS: QueueIndex = QueueIndex(1);
pub(super) const OUTBOX: QueueIndex = QueueIndex(0);

/// Returns the configuration: the adopted table, and an outbox that completion fills and a transfer worker drains.
pub(super) fn configuration(lease: Duration) -> String {
    let lease = humantime::format_duration(lease);
    format!(
        "[queues.rainfall]
table = \"Rainfall_Events\"
lease = \"{lease}\"
max_attempts = 0
[queues.rainfall.mirror]
ready = {{ Processed = 0 }}
completed = {{ Processed = 1 }}

[queues.outbox]
managed = {{ event_id = \"integer not null\", worker = \"text\", litres = \"real\" }}
lease = \"{lease}\"
max_attempts = 0
on_complete = \"delete\"
"
    )
}

/// Makes the table and its rows.
pub(super) fn make(file: &Path, events: u32) -> Result<(), CommandError> {
    let make = |connection: Connection| {
        connection.execute_batch(
            "CREATE TABLE Rainfall_Events (
                Event_ID INTEGER PRIMARY KEY,
                Rainfall_ID bigint NOT NULL,
                Station varchar(40) NOT NULL,
                Measured_At datetime NOT NULL,
                Millimetres decimal(6,2) NOT NULL,
                Processed bit NOT NULL DEFAULT 0
            )",
        )?;
        connection.execute(
            "WITH RECURSIVE event (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM event WHERE id < ?1)
             INSERT INTO Rainfall_Events (Event_ID, Rainfall_ID, Station, Measured_At, Millimetres)
             SELECT id, id / 10, 'Station ' || (id % 37), datetime('2026-01-01', '+' || id || ' minutes'),
                    round((id * 7919 % 1000) / 25.0, 2)
             FROM event",
            [events],
        )
    };
    Connection::open(file)
        .and_then(make)
        .map(|_| ())
        .map_err(|error| CommandError::io(format!("{}: {error}", file.display())))
}
