//! Values of soft-lock columns as another program may have written them: SQLite stores any value in any column. A broker that meets such
//! a value shows the rest of the row, and goes on with the others.

use rusqlite::Row;

use crate::stats::attempts_of;

/// Reads an integer. A value of another type is `None`.
pub(super) fn integer(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<i64>> {
    Ok(row.get_ref(index)?.as_i64_or_null().unwrap_or(None))
}

/// Reads a text like [`integer`].
pub(super) fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<String>> {
    let text = row.get_ref(index)?.as_str_or_null().unwrap_or(None);
    Ok(text.map(str::to_owned))
}

/// Reads the number of attempts. A value that is none counts as 0.
pub(super) fn attempts(row: &Row<'_>, index: usize) -> rusqlite::Result<u32> {
    Ok(attempts_of(integer(row, index)?.unwrap_or(0)))
}
