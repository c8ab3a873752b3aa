//! Applies the migrations of the broker's own tables to a `SQLite` file.

use rusqlite::Connection;

use crate::StoreError;
use crate::migrations::{self, Applied, Migration};

const MIGRATIONS: [Migration; 1] = [Migration {
    name: "0001_broker",
    sql: lease_broker_sql::sqlite::MIGRATION_0001_BROKER,
    oldest_reader: "0.2.0",
}];

const CREATE_HISTORY_TABLE: &str = "CREATE TABLE IF NOT EXISTS lease_broker_migration (
    name TEXT PRIMARY KEY NOT NULL,
    checksum TEXT NOT NULL,
    apply_time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    oldest_reader TEXT NOT NULL
)";

/// Applies the migrations that the file needs, in one transaction. The transaction holds the write lock from its start, so
/// two brokers that start together do not apply a migration twice, and both find the same secret.
///
/// # Errors
/// Those of [`migrations::pending`].
pub(super) fn migrate(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let result = apply_pending(connection, &MIGRATIONS);
    connection.execute_batch(if result.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    result
}

fn apply_pending(connection: &Connection, known: &[Migration]) -> Result<(), StoreError> {
    connection.execute_batch(CREATE_HISTORY_TABLE)?;
    for migration in migrations::pending(known, read_applied(connection)?)? {
        connection.execute_batch(migration.sql)?;
        if migration.name == migrations::CREATES_SECRETS {
            connection.execute(
                "INSERT INTO lease_broker_secret (id, secret) VALUES (0, ?1)",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_migration_is_applied_once_and_keeps_the_secret() {
        let connection = Connection::open_in_memory().expect("a database");
        let text = |sql: &str| -> String {
            let text = connection.query_row(sql, [], |row| row.get(0));
            text.expect(sql)
        };
        let secret = "SELECT group_concat(id || hex(secret)) FROM lease_broker_secret";
        let history = "SELECT group_concat(name || ' ' || oldest_reader, ', ') FROM
            (SELECT * FROM lease_broker_migration ORDER BY name)";
        migrate(&connection).expect("the first migration");
        let first_secret = text(secret);
        let [first] = MIGRATIONS;
        let second = Migration {
            name: "0002_more",
            sql: "CREATE TABLE lease_broker_more (id INTEGER PRIMARY KEY)",
            oldest_reader: "0.3.0",
        };
        let later = [first, second];
        for _ in 0..2 {
            apply_pending(&connection, &later).expect("the second migration");
            assert_eq!(text(history), "0001_broker 0.2.0, 0002_more 0.3.0");
            assert_eq!(text(secret), first_secret);
        }
        let refused = migrate(&connection).expect_err("a newer database");
        assert!(refused.to_string().contains("0002_more"), "{refused}");
    }
}
