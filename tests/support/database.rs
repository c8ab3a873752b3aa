//! Direct access to the broker's `SQLite` file, as another program has it.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::{FromSql, Value};

use super::timeout::TEST_TIMEOUT;

/// Opens the file. A statement waits up to [`TEST_TIMEOUT`] for a lock.
pub(crate) fn open(file: &Path) -> Connection {
    let database = Connection::open(file).expect("the database opens");
    database
        .busy_timeout(TEST_TIMEOUT)
        .expect("the timeout is set");
    database
}

/// Returns the first column of the first row of a query.
pub(crate) fn query_value<T: FromSql>(database: &Connection, sql: &str) -> T {
    let value = database.query_row(sql, [], |row| row.get(0));
    value.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Returns all columns of all rows of a table, ordered by row id. Tests compare two results to prove that no row
/// changed.
pub(crate) fn all_rows(database: &Connection, table: &str) -> Vec<Vec<Value>> {
    let sql = format!("SELECT * FROM \"{table}\" ORDER BY rowid");
    let mut statement = database.prepare(&sql).expect("the table exists");
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|index| row.get(index)).collect());
    rows.expect("the query runs")
        .collect::<Result<_, _>>()
        .expect("the rows are read")
}

/// The write lock of the file, held until it is dropped.
pub(crate) struct WriteLock(Connection);

impl WriteLock {
    pub(crate) fn acquire(file: &Path) -> Self {
        let database = open(file);
        database
            .execute_batch("BEGIN IMMEDIATE")
            .expect("the write lock is free");
        Self(database)
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        let _ = self.0.execute_batch("ROLLBACK");
    }
}
