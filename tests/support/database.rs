//! The file as other programs see it: plain `SQLite`.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::{FromSql, Value};

pub(crate) fn open(file: &Path) -> Connection {
    let database = Connection::open(file).expect("a database");
    database
        .busy_timeout(Duration::from_secs(20))
        .expect("a time-out");
    database
}

/// Returns the first value that a query finds.
pub(crate) fn query_value<T: FromSql>(database: &Connection, sql: &str) -> T {
    let value = database.query_row(sql, [], |row| row.get(0));
    value.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Returns every row of a table with all that is in it, in the order of its rows.
pub(crate) fn all_rows(database: &Connection, table: &str) -> Vec<Vec<Value>> {
    let sql = format!("SELECT * FROM \"{table}\" ORDER BY rowid");
    let mut statement = database.prepare(&sql).expect("a table");
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect());
    rows.expect("rows")
        .collect::<Result<_, _>>()
        .expect("values")
}

/// Holds the file's write lock until it is dropped.
pub(crate) struct WriteLock(Connection);

impl WriteLock {
    pub(crate) fn acquire(file: &Path) -> Self {
        let database = open(file);
        database.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        Self(database)
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        let _ = self.0.execute_batch("ROLLBACK");
    }
}
