//! Applies the migrations of the broker's own tables to a `SQLite` file.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _};

use crate::lease_id::Secret;
use crate::store::{StoreError, migrations};

const MIGRATIONS: [(&str, &str); 1] = [(
    "0001_broker",
    include_str!("../../../sql/sqlite/migrations/0001_broker.sql"),
)];

const CREATE_HISTORY_TABLE: &str = "CREATE TABLE IF NOT EXISTS lease_broker_migration (
    name TEXT PRIMARY KEY NOT NULL,
    checksum TEXT NOT NULL,
    apply_time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
)";

/// Applies the migrations that the file needs, in one transaction. The transaction holds the write lock from its start, so
/// two brokers that start together do not apply a migration twice.
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
    let mut statement = connection.prepare("SELECT name, checksum FROM lease_broker_migration")?;
    let applied = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let applied: BTreeMap<String, String> = applied.collect::<rusqlite::Result<_>>()?;
    for migration in migrations::pending(&MIGRATIONS, applied)? {
        connection.execute_batch(migration.sql)?;
        connection.execute(
            "INSERT INTO lease_broker_migration (name, checksum) VALUES (?1, ?2)",
            [migration.name, &migration.checksum],
        )?;
    }
    Ok(())
}

/// Reads the deployment's secret.
///
/// # Errors
/// Those of [`migrations::secret`].
pub(super) fn secret(connection: &Connection) -> Result<Secret, StoreError> {
    let value: Option<Vec<u8>> = connection
        .query_row(
            "SELECT value FROM lease_broker_meta WHERE name = 'secret'",
            [],
            |row| row.get(0),
        )
        .optional()?;
    migrations::secret(value.as_deref())
}
