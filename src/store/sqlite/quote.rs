//! Quoted identifiers and literals of `SQLite`.

use lease_broker_model::key::hex;
use lease_broker_value::Value;

/// Quotes an identifier.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes identifiers and joins them with commas.
pub(super) fn quote_all<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(quote).collect();
    quoted.join(", ")
}

/// Renders a name as a text literal.
pub(super) fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Renders a value of the configuration as a literal.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Bool(bool) => i64::from(*bool).to_string(),
        Value::Int(int) => int.to_string(),
        Value::Double(double) => format!("{double:?}"),
        Value::Text(text) | Value::Decimal(text) => text_literal(text),
        Value::Bytes(bytes) => format!("x'{}'", hex(bytes)),
        Value::Null | Value::Timestamp { .. } => "NULL".to_owned(),
    }
}
