//! Runs prepared statements with parameters by number.

use rusqlite::types::{ToSqlOutput, Value as Sql, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use super::types;
use crate::value::Key;

/// Keeps the statement at hand that ran last: a group mostly repeats one, and to look it up by its text costs as much as to
/// run it.
pub(super) struct Latest<'a> {
    connection: &'a Connection,
    statement: Option<(&'a str, CachedStatement<'a>)>,
}

impl<'a> Latest<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            statement: None,
        }
    }

    pub(super) fn get(&mut self, sql: &'a str) -> rusqlite::Result<&mut CachedStatement<'a>> {
        let is_it = |(latest, _): &(&str, _)| std::ptr::eq(*latest, sql);
        let statement = match self.statement.take().filter(is_it) {
            Some((_, statement)) => statement,
            None => self.connection.prepare_cached(sql)?,
        };
        Ok(&mut self.statement.insert((sql, statement)).1)
    }
}

/// Binds the key's values to the parameters from 1 on.
pub(super) fn bind_key(statement: &mut CachedStatement<'_>, key: &Key) -> rusqlite::Result<()> {
    for (at, value) in (1..).zip(&key.0) {
        statement.raw_bind_parameter(at, types::store_key(value))?;
    }
    Ok(())
}

/// Binds values to the parameters from `first` on; a parameter that the statement does not have is passed over, so that
/// statements of one file share one numbering.
pub(super) fn bind(
    statement: &mut CachedStatement<'_>,
    first: usize,
    values: &[&dyn ToSql],
) -> rusqlite::Result<()> {
    let most = statement.parameter_count();
    for (at, value) in (first..=most).zip(values) {
        statement.raw_bind_parameter(at, value)?;
    }
    Ok(())
}

/// A lease token as the store keeps it: 16 bytes.
pub(super) struct Token<'a>(pub(super) &'a uuid::Uuid);

impl ToSql for Token<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

/// A value for a parameter, without a copy.
pub(super) fn borrowed(value: &Sql) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::from(value))
}
