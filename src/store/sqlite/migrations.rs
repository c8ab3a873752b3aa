//! Applies the migrations of the broker's own tables to a `SQLite` file.

use rusqlite::Connection;

use crate::store::StoreError;
use crate::store::migrations::{self, Applied, Migration};

const MIGRATIONS: [Migration; 5] = [
    Migration {
        name: "0001_broker",
        sql: include_str!("../../../sql/sqlite/migrations/0001_broker.sql"),
        oldest_reader: "0.1.0",
    },
    Migration {
        name: "0002_secret",
        sql: include_str!("../../../sql/sqlite/migrations/0002_secret.sql"),
        oldest_reader: "0.2.0",
    },
    Migration {
        name: "0003_retention",
        sql: include_str!("../../../sql/sqlite/migrations/0003_retention.sql"),
        oldest_reader: "0.2.0",
    },
    Migration {
        name: "0004_request",
        sql: include_str!("../../../sql/sqlite/migrations/0004_request.sql"),
        oldest_reader: "0.2.0",
    },
    Migration {
        name: "0005_instance",
        sql: include_str!("../../../sql/sqlite/migrations/0005_instance.sql"),
        oldest_reader: "0.2.0",
    },
];

const CREATE_HISTORY_TABLE: &str = "CREATE TABLE IF NOT EXISTS lease_broker_migration (
    name TEXT PRIMARY KEY NOT NULL,
    checksum TEXT NOT NULL,
    apply_time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    oldest_reader TEXT
)";
/// Returns a row if the history table has the column that 0.2.0 added.
const FIND_OLDEST_READER: &str =
    "SELECT 1 FROM pragma_table_info('lease_broker_migration') WHERE name = 'oldest_reader'";
const ADD_OLDEST_READER: &str = "ALTER TABLE lease_broker_migration ADD COLUMN oldest_reader TEXT";

/// Applies the migrations that the file needs, in one transaction. The transaction holds the write lock from its start, so
/// two brokers that start together do not apply a migration twice, and both find the same secret.
///
/// # Errors
/// Those of [`migrations::pending`].
pub(super) fn migrate(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let result = apply_pending(connection);
    connection.execute_batch(if result.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    result
}

fn apply_pending(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch(CREATE_HISTORY_TABLE)?;
    if !connection.prepare(FIND_OLDEST_READER)?.exists([])? {
        connection.execute_batch(ADD_OLDEST_READER)?;
    }
    for migration in migrations::pending(&MIGRATIONS, read_applied(connection)?)? {
        connection.execute_batch(migration.sql)?;
        if migration.name == migrations::FIRST_SECRET {
            connection.execute(
                "UPDATE lease_broker_meta SET value = ?1 WHERE name = 'secret'",
                [migrations::new_secret()],
            )?;
        }
        connection.execute(
            "INSERT INTO lease_broker_migration (name, checksum, oldest_reader) VALUES (?1, ?2, ?3)",
            [
                migration.name,
                &migration.checksum,
                migration.oldest_reader,
            ],
        )?;
    }
    Ok(())
}

fn read_applied(connection: &Connection) -> Result<Vec<Applied>, StoreError> {
    let mut statement =
        connection.prepare("SELECT name, checksum, oldest_reader FROM lease_broker_migration")?;
    let applied = statement.query_map([], |row| {
        Ok(Applied {
            name: row.get(0)?,
            checksum: row.get(1)?,
            oldest_reader: row.get(2)?,
        })
    })?;
    Ok(applied.collect::<rusqlite::Result<_>>()?)
}
