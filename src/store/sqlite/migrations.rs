//! The broker's own tables: numbered files, applied once, each remembered with its checksum.

use rusqlite::{Connection, OptionalExtension as _};
use sha2::{Digest as _, Sha256};

use crate::lease_id::Secret;
use crate::store::StoreError;
use crate::value::hex;

const MIGRATIONS: [(&str, &str); 1] = [(
    "0001_broker",
    include_str!("../../../sql/sqlite/migrations/0001_broker.sql"),
)];

const CREATE_HISTORY_TABLE: &str = "CREATE TABLE IF NOT EXISTS lease_broker_migration (
    name TEXT PRIMARY KEY NOT NULL,
    checksum TEXT NOT NULL,
    apply_time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
)";

/// Applies what is missing, in one transaction.
///
/// # Errors
/// [`StoreError::Misconfigured`] if a migration was applied with another text, or by a newer broker.
pub(super) fn migrate(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let result = migrate_all(connection);
    connection.execute_batch(if result.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    result
}

fn migrate_all(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch(CREATE_HISTORY_TABLE)?;
    for (name, sql) in MIGRATIONS {
        let checksum = hex(&Sha256::digest(sql.as_bytes()));
        let applied: Option<String> = connection
            .query_row(
                "SELECT checksum FROM lease_broker_migration WHERE name = ?1",
                [name],
                |row| row.get(0),
            )
            .optional()?;
        match applied {
            Some(applied) if applied == checksum => {}
            Some(applied) => {
                return Err(StoreError::Misconfigured(format!(
                    "migration {name} was applied with another text (checksum {applied}, now {checksum}): this file was \
                     made by another build of lease-broker"
                )));
            }
            None => {
                connection.execute_batch(sql)?;
                connection.execute(
                    "INSERT INTO lease_broker_migration (name, checksum) VALUES (?1, ?2)",
                    [name, &checksum],
                )?;
            }
        }
    }
    let newest = MIGRATIONS[MIGRATIONS.len() - 1].0;
    let newer: Option<String> = connection.query_row(
        "SELECT max(name) FROM lease_broker_migration WHERE name > ?1",
        [newest],
        |row| row.get(0),
    )?;
    match newer {
        Some(newer) => Err(StoreError::Misconfigured(format!(
            "this file has migration {newer}, which this build does not know: run a newer lease-broker"
        ))),
        None => Ok(()),
    }
}

/// Reads the deployment's secret.
pub(super) fn secret(connection: &Connection) -> Result<Secret, StoreError> {
    let bytes: Option<Vec<u8>> = connection
        .query_row(
            "SELECT value FROM lease_broker_meta WHERE name = 'secret'",
            [],
            |row| row.get(0),
        )
        .optional()?;
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map(Secret::new).ok_or_else(|| {
        StoreError::Misconfigured(
            "lease_broker_meta has no secret of 16 bytes: restore that row from a backup"
                .to_owned(),
        )
    })
}
