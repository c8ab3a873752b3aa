//! Runs prepared statements with parameters by number.

use rusqlite::types::{ToSqlOutput, Value as Sql, ValueRef};
use rusqlite::{CachedStatement, ToSql};

use super::types;
use crate::value::Key;

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
