//! Entry point for fuzzing: the conversion of values for SQL Server's columns.

use lease_broker_value::Value;

use super::catalogue::Column;
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
