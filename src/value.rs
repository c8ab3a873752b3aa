//! A column's value as it passes between workers and the store, whatever the store's own types are.

use std::fmt;

/// A column's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL's NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer of up to 64 bits.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// Text.
    Text(String),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// A moment, UTC.
    Timestamp {
        /// Seconds since 1970-01-01T00:00:00Z.
        seconds: i64,
        /// Nanoseconds within the second, 0 to 999,999,999.
        nanos: i32,
    },
    /// Exact decimal digits, such as `-12.50`.
    Decimal(String),
}

impl Value {
    /// Names the value's type as the API spells it, for messages.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Bool(_) => "bool_value",
            Self::Int(_) => "int64_value",
            Self::Double(_) => "double_value",
            Self::Text(_) => "string_value",
            Self::Bytes(_) => "bytes_value",
            Self::Timestamp { .. } => "timestamp_value",
            Self::Decimal(_) => "decimal_value",
        }
    }

    /// Estimates the bytes that the value takes on the wire.
    pub fn wire_size(&self) -> usize {
        match self {
            Self::Null => 2,
            Self::Text(text) | Self::Decimal(text) => text.len() + 4,
            Self::Bytes(bytes) => bytes.len() + 4,
            _ => 12,
        }
    }
}

/// The values that name one row, in the order of the queue's key columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Key(pub Box<[Value]>);

/// The key as clients see it: the value as text, or for several columns a JSON array of the values.
/// Bytes are written as lower-case hexadecimal.
impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [Value::Text(text) | Value::Decimal(text)] => out.write_str(text),
            [single] => match json(single) {
                serde_json::Value::String(text) => out.write_str(&text),
                other => write!(out, "{other}"),
            },
            several => {
                let array: Vec<_> = several.iter().map(json).collect();
                write!(out, "{}", serde_json::Value::Array(array))
            }
        }
    }
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(bool) => (*bool).into(),
        Value::Int(int) => (*int).into(),
        Value::Double(double) => (*double).into(),
        Value::Text(text) | Value::Decimal(text) => text.as_str().into(),
        Value::Bytes(bytes) => hex(bytes).into(),
        Value::Timestamp { seconds, nanos } => rfc3339(*seconds, *nanos).into(),
    }
}

/// Writes a moment as `2026-11-20T22:15:20.123Z`, with as many decimals as it needs.
pub fn rfc3339(seconds: i64, nanos: i32) -> String {
    use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

    OffsetDateTime::from_unix_timestamp(seconds)
        .ok()
        .and_then(|moment| moment.checked_add(Duration::nanoseconds(nanos.into())))
        .and_then(|moment| moment.format(&Rfc3339).ok())
        .unwrap_or_else(|| format!("{seconds}.{nanos:09}"))
}

/// Writes bytes as lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";

    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    let pairs = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)]);
    let mut text = String::with_capacity(bytes.len() * 2);
    text.extend(pairs);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_key_is_its_plain_text_and_a_composite_key_a_json_array() {
        let text = |values: Vec<Value>| Key(values.into()).to_string();
        assert_eq!(text(vec![Value::Int(42)]), "42");
        assert_eq!(text(vec![Value::Text("a\"b".into())]), "a\"b");
        assert_eq!(text(vec![Value::Bytes(vec![0, 255])]), "00ff");
        assert_eq!(
            text(vec![Value::Int(7), Value::Text("a\"b".into())]),
            r#"[7,"a\"b"]"#
        );
    }

    #[test]
    fn a_moment_is_written_in_utc() {
        assert_eq!(rfc3339(0, 5_000_000), "1970-01-01T00:00:00.005Z");
    }
}
