//! Entry points for fuzzing: the conversion of values for SQL Server's columns, and the connection string.

use lease_broker_value::Value;

use super::catalogue::Column;
use super::connection_string::{database, parse};
use super::types::encode;
use super::value_limits;

/// Types, each with a declaration of it.
const TYPES: [(&str, &str); 18] = [
    ("tinyint", "tinyint"),
    ("bigint", "bigint"),
    ("bit", "bit"),
    ("nvarchar", "nvarchar(10)"),
    ("nvarchar", "nvarchar(max)"),
    ("varbinary", "varbinary(8)"),
    ("float", "float"),
    ("real", "real"),
    ("decimal", "decimal(9,2)"),
    ("smallmoney", "smallmoney"),
    ("datetime", "datetime"),
    ("datetime2", "datetime2(3)"),
    ("datetimeoffset", "datetimeoffset(7)"),
    ("date", "date"),
    ("time", "time(0)"),
    ("uniqueidentifier", "uniqueidentifier"),
    ("xml", "xml"),
    ("rowversion", "rowversion"),
];

/// Checks and encodes a value for each type of column.
pub(crate) fn value(value: &Value) {
    for (name, declared) in TYPES {
        let column = Column {
            declared: declared.to_owned(),
            ..Column::of_type(name)
        };
        if value_limits::check(value, &column).is_ok() {
            let _ = encode(value, column.kind);
        }
    }
}

/// Parses a text as a connection string, and one that continues it with a password.
pub(crate) fn connection_string(text: &str) {
    const PASSWORD: &str = "Zq9Zq9Zq9";
    for text in [text.to_owned(), format!("{text};password={PASSWORD}")] {
        let _ = database(&text);
        if let Err(problem) = parse(&text) {
            assert!(
                !problem.is_empty() && !problem.contains(PASSWORD),
                "{problem}"
            );
        }
    }
}
