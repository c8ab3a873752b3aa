//! The broker's own tables: numbered files, applied once, each remembered with its checksum.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::connection::Connection;
use super::decode;
use crate::lease_id::Secret;
use crate::store::StoreError;
use crate::value::hex;

const MIGRATIONS: [(&str, &str); 1] = [(
    "0001_broker",
    include_str!("../../../sql/mssql/migrations/0001_broker.sql"),
)];

const CREATE_HISTORY_TABLE: &str = "IF OBJECT_ID(N'lease_broker_migration') IS NULL
    CREATE TABLE lease_broker_migration (
        name varchar(64) NOT NULL PRIMARY KEY,
        checksum varchar(64) NOT NULL,
        apply_time datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME()
    )";

const LOCK: &str = "DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'lease_broker_migration', \
    @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 3000; SELECT @r";
/// How often the lock is waited for: for half a minute in all.
const TRIES: usize = 10;
const UNLOCK: &str =
    "EXEC sp_releaseapplock @Resource = N'lease_broker_migration', @LockOwner = 'Session'";

/// Does what only one broker may do at a time: an application lock of the session.
pub(super) async fn with_migration_lock(
    connection: &mut Connection,
    work: impl AsyncFnOnce(&mut Connection) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut got = false;
    for _ in 0..TRIES {
        let results = connection.batch(LOCK).await?;
        got = decode::integer(decode::single_row(&results, 0)?, 0)? >= 0;
        if got {
            break;
        }
    }
    if !got {
        return Err(StoreError::unavailable(
            "other brokers have been preparing the database for long",
        ));
    }
    let done = work(connection).await;
    // A connection that broke has lost the lock, and says so itself.
    let released = connection.batch(UNLOCK).await;
    done?;
    released?;
    Ok(())
}

/// Applies what is missing.
pub(super) async fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    connection.batch(CREATE_HISTORY_TABLE).await?;
    let results = connection
        .batch("SELECT name, checksum FROM lease_broker_migration")
        .await?;
    let mut applied = BTreeMap::new();
    for row in results.iter().flatten() {
        let (name, checksum): (Option<&str>, Option<&str>) = (row.try_get(0)?, row.try_get(1)?);
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        applied.insert(text(name), text(checksum));
    }
    for (name, sql) in MIGRATIONS {
        let checksum = hex(&Sha256::digest(sql.as_bytes()));
        match applied.remove(name) {
            Some(applied) if applied == checksum => {}
            Some(applied) => {
                return Err(StoreError::Misconfigured(format!(
                    "migration {name} was applied with another text (checksum {applied}, now {checksum}): this database \
                     was prepared by another build of lease-broker"
                )));
            }
            None => {
                // All of it or nothing: a broker that stops in the middle leaves no half of it.
                connection
                    .batch("SET XACT_ABORT ON; BEGIN TRANSACTION")
                    .await?;
                for batch in sql.split("\nGO\n") {
                    connection.batch(batch).await?;
                }
                let remember = "INSERT lease_broker_migration (name, checksum) VALUES (@P1, @P2)";
                connection.query(remember, &[&name, &checksum]).await?;
                connection.batch("COMMIT TRANSACTION").await?;
            }
        }
    }
    match applied.into_keys().next_back() {
        Some(newer) => Err(StoreError::Misconfigured(format!(
            "this database has migration {newer}, which this build does not know: run a newer lease-broker"
        ))),
        None => Ok(()),
    }
}

/// Reads the deployment's secret.
pub(super) async fn secret(connection: &mut Connection) -> Result<Secret, StoreError> {
    let results = connection
        .batch("SELECT value FROM lease_broker_meta WHERE name = 'secret'")
        .await?;
    let bytes: Option<&[u8]> = match results.first().and_then(|rows| rows.first()) {
        Some(row) => row.try_get(0)?,
        None => None,
    };
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map(Secret::new).ok_or_else(|| {
        let gone = "lease_broker_meta has no secret of 16 bytes: restore that row from a backup";
        StoreError::Misconfigured(gone.to_owned())
    })
}
