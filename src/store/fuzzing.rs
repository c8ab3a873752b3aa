//! Entry point for fuzzing: the conversion of values for the columns of both stores.

use lease_broker_value::Value;

/// Converts a value for each kind of column.
pub fn value(value: &Value) {
    super::sqlite::fuzzing::value(value);
    super::mssql::fuzzing::value(value);
}
