//! Entry points for fuzzing: the conversion of values for the columns of both stores, and the connection string.

use lease_broker_value::Value;

/// Converts a value for each kind of column.
pub fn value(value: &Value) {
    super::sqlite::fuzzing::value(value);
    super::mssql::fuzzing::value(value);
}

/// Parses a connection string of SQL Server. An error does not show the password.
pub fn connection_string(text: &str) {
    super::mssql::fuzzing::connection_string(text);
}
