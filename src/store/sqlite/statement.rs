//! Helpers for prepared statements: parameters by number, and a cache of the last statement.

use lease_broker_model::key::Key;
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use super::column_value::Stored;

/// Keeps the statement that ran last.
///
/// Most settlements of a list use the same statement. To find it in the connection's cache, by its text, costs as much
/// as to run it.
pub(super) struct LastStatement<'a> {
    connection: &'a Connection,
    last: Option<(&'a str, CachedStatement<'a>)>,
}

impl<'a> LastStatement<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            last: None,
        }
    }

    /// Returns the prepared statement for `sql`.
    pub(super) fn get(&mut self, sql: &'a str) -> rusqlite::Result<&mut CachedStatement<'a>> {
        let is_same = |(last, _): &(&str, _)| std::ptr::eq(*last, sql);
        let statement = match self.last.take().filter(is_same) {
            Some((_, statement)) => statement,
            None => self.connection.prepare_cached(sql)?,
        };
        Ok(&mut self.last.insert((sql, statement)).1)
    }
}

/// Binds the values of a key to the parameters from ?1.
pub(super) fn bind_key(statement: &mut CachedStatement<'_>, key: &Key) -> rusqlite::Result<()> {
    for (parameter, value) in (1..).zip(&key.0) {
        statement.raw_bind_parameter(parameter, Stored::new(value))?;
    }
    Ok(())
}

/// Binds values to the parameters from number `first`.
///
/// All sections of an SQL file number their parameters alike. A section that does not use the last of them has fewer
/// parameters, and the values for the others are ignored.
pub(super) fn bind(
    statement: &mut CachedStatement<'_>,
    first: usize,
    values: &[&dyn ToSql],
) -> rusqlite::Result<()> {
    let count = statement.parameter_count();
    for (parameter, value) in (first..=count).zip(values) {
        statement.raw_bind_parameter(parameter, value)?;
    }
    Ok(())
}

/// A lease token as a parameter. The column has its 16 bytes.
pub(super) struct Token<'a>(pub(super) &'a uuid::Uuid);

impl ToSql for Token<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

/// Returns the value of the checkpoint column: NULL for an empty checkpoint, which removes the stored one.
pub(super) fn stored_checkpoint(checkpoint: &[u8]) -> Option<&[u8]> {
    (!checkpoint.is_empty()).then_some(checkpoint)
}

/// Passes a value as a parameter without a copy.
pub(super) fn borrowed(value: &SqlValue) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::from(value))
}
