//! Applies the migrations of the broker's own tables to a database on a server.

use tiberius::{Row, ToSql};

use super::connection::Connection;
use super::decode;
use crate::StoreError;
use crate::migrations::{self, Applied, Migration};

const MIGRATIONS: [Migration; 1] = [Migration {
    name: "0001_broker",
    sql: lease_broker_sql::mssql::MIGRATION_0001_BROKER,
    oldest_reader: "0.2.0",
}];

pub(super) const CREATE_HISTORY_TABLE: &str = "IF OBJECT_ID(N'lease_broker_migration') IS NULL
    CREATE TABLE lease_broker_migration (
        name varchar(64) NOT NULL CONSTRAINT PK_lease_broker_migration PRIMARY KEY,
        checksum varchar(64) NOT NULL,
        apply_time datetime2(3) NOT NULL CONSTRAINT DF_lease_broker_migration_apply_time DEFAULT SYSUTCDATETIME(),
        oldest_reader varchar(64) NOT NULL
    )";

/// Reads the schemas, other than the login's default schema, that have a table with this name too, and the default schema.
const OTHER_SCHEMAS: &str =
    "SELECT CAST(t.TABLE_SCHEMA AS nvarchar(128)), CAST(SCHEMA_NAME() AS nvarchar(128))
FROM INFORMATION_SCHEMA.TABLES AS t
WHERE t.TABLE_NAME = N'lease_broker_migration' AND t.TABLE_SCHEMA <> SCHEMA_NAME()
ORDER BY t.TABLE_SCHEMA";

/// Waits 30 s for an application lock that belongs to the session. Returns a negative number if another session holds it. One long
/// wait, because Babelfish 4.3 ends the whole server when a session has failed five times to get an application lock.
const LOCK: &str = "DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'lease_broker_migration', \
    @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 30000; SELECT @r";
const UNLOCK: &str =
    "EXEC sp_releaseapplock @Resource = N'lease_broker_migration', @LockOwner = 'Session'";

/// Runs `work` while holding the migration lock, so that only one broker at a time prepares the database. The time limit of
/// the connection must be longer than the wait.
///
/// # Errors
/// [`StoreError::Unavailable`] if another broker holds the lock for 30 s. The errors of `work`.
pub(super) async fn with_migration_lock(
    connection: &mut Connection,
    work: impl AsyncFnOnce(&mut Connection) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let results = connection.batch(LOCK).await?;
    let locked = decode::integer(decode::single_row(&results, 0)?, 0)? >= 0;
    if !locked {
        return Err(StoreError::unavailable(
            "timed out after 30 s: another broker holds the migration lock; try again when it has finished",
        ));
    }
    let done = work(connection).await;
    // If the connection broke, the server has released the lock, and `work` has returned the error.
    let released = connection.batch(UNLOCK).await;
    done?;
    released?;
    Ok(())
}

/// Applies the migrations that the database needs, each in one transaction.
///
/// # Errors
/// Those of [`migrations::pending`].
pub(super) async fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    connection.batch(CREATE_HISTORY_TABLE).await?;
    let applied = read_applied(connection).await?;
    for migration in migrations::pending(&MIGRATIONS, applied)? {
        // The transaction prevents a half-applied migration if the broker stops in between.
        connection
            .batch("SET XACT_ABORT ON; BEGIN TRANSACTION")
            .await?;
        for batch in migration.sql.split("\nGO\n") {
            connection.batch(batch).await?;
        }
        if migration.name == migrations::CREATES_SECRETS {
            let add = "INSERT lease_broker_secret (id, secret) VALUES (0, @P1)";
            let secret = migrations::new_secret();
            connection.query(add, &[&&secret[..]]).await?;
        }
        let record =
            "INSERT lease_broker_migration (name, checksum, oldest_reader) VALUES (@P1, @P2, @P3)";
        let parameters: [&dyn ToSql; 3] = [
            &migration.name,
            &migration.checksum,
            &migration.oldest_reader,
        ];
        connection.query(record, &parameters).await?;
        connection.batch("COMMIT TRANSACTION").await?;
    }
    Ok(())
}

/// Returns a sentence if another schema has the broker's tables too. The tables of a login are those of its default schema.
pub(super) async fn second_set(connection: &mut Connection) -> Result<Option<String>, StoreError> {
    let results = connection.batch(OTHER_SCHEMAS).await?;
    let Some(row) = results.iter().flatten().next() else {
        return Ok(None);
    };
    let (other, own) = (decode::text(row, 0)?, decode::text(row, 1)?);
    Ok(Some(format!(
        "the schema {other} has tables lease_broker_* too, and this login uses those of its default schema {own}: brokers that use \
         the others do not know its lease ids. Give all logins one default schema (ALTER USER … WITH DEFAULT_SCHEMA = {other})"
    )))
}

async fn read_applied(connection: &mut Connection) -> Result<Vec<Applied>, StoreError> {
    let results = connection
        .batch("SELECT name, checksum, oldest_reader FROM lease_broker_migration")
        .await?;
    let read = |row: &Row| -> Result<Applied, StoreError> {
        Ok(Applied {
            name: decode::text(row, 0)?,
            checksum: decode::text(row, 1)?,
            oldest_reader: decode::text(row, 2)?,
        })
    };
    results.iter().flatten().map(read).collect()
}
