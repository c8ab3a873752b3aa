//! Entry point for fuzzing: the conversion of values for SQLite's columns.

use lease_broker_value::Value;

use super::types::{ColumnType, read, store};

/// Declared types, one for each kind of column.
const TYPES: [&str; 6] = ["INTEGER", "BOOLEAN", "TEXT", "BLOB", "REAL", "NUMERIC"];

/// Converts a value for each kind of column. NULL is the only value that becomes NULL.
pub(crate) fn value(value: &Value) {
    let types = TYPES.map(ColumnType::of_declaration);
    for column in types.into_iter().chain([ColumnType::RowNumber]) {
        if let Ok(stored) = store(value, column) {
            let back = read((&stored).into());
            assert_eq!(
                back == Value::Null,
                *value == Value::Null,
                "{value:?} in {column:?}"
            );
        }
    }
}
