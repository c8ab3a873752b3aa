//! Entry point for fuzzing: the conversion of values for SQLite's columns.

use lease_broker_value::Value;

use super::column_value::{read_column, store};
use super::types::ColumnType;

/// Declared types, one for each kind of column.
const TYPES: [&str; 12] = [
    "INTEGER",
    "TEXT",
    "BLOB",
    "",
    "REAL",
    "BOOLEAN",
    "DECIMAL(9,2)",
    "DATETIME",
    "DATE",
    "TIME",
    "UUID",
    "STRING",
];

/// Converts a value for each kind of column. NULL is the only value that becomes NULL.
pub(crate) fn value(value: &Value) {
    let types = TYPES.map(|declared| ColumnType::of_declaration(declared, false));
    for column in types.into_iter().chain([ColumnType::RowNumber]) {
        if let Ok(stored) = store(value, column) {
            let back = read_column((&stored).into(), column);
            assert_eq!(
                back == Value::Null,
                *value == Value::Null,
                "{value:?} in {column:?}"
            );
        }
    }
}
