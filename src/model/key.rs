//! Keys of items, and values as text.

use std::fmt;

use data_encoding::HEXLOWER;
use lease_broker_value::Value;

/// The identity of a row: the values of the queue's key columns, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Key(pub Box<[Value]>);

/// The texts of the two infinite numbers, which JSON does not have. SQL reads them as these numbers.
pub const INFINITY: &str = "9e999";
/// See [`INFINITY`].
pub const NEGATIVE_INFINITY: &str = "-9e999";

/// Writes the key as clients see it. A key of one column is the value as text. A key of several columns is a JSON array
/// of the values. Bytes are written in lower-case hexadecimal.
impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [Value::Text(text) | Value::Decimal(text)] => out.write_str(text),
            [Value::Int(int)] => int.fmt(out),
            [single] => match json(single) {
                serde_json::Value::String(text) => out.write_str(&text),
                other => write!(out, "{other}"),
            },
            columns => {
                let array: Vec<_> = columns.iter().map(json).collect();
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
        Value::Double(f64::INFINITY) => INFINITY.into(),
        Value::Double(f64::NEG_INFINITY) => NEGATIVE_INFINITY.into(),
        Value::Double(double) => (*double).into(),
        Value::Text(text) | Value::Decimal(text) => text.as_str().into(),
        Value::Bytes(bytes) => hex(bytes).into(),
        Value::Timestamp { seconds, nanos } => rfc3339(*seconds, *nanos).into(),
    }
}

/// Formats a point in time as RFC 3339 text in UTC, such as `2026-11-20T22:15:20.123Z`, with as many decimal places as
/// needed. A time outside the years that RFC 3339 allows is written as seconds since 1970.
pub fn rfc3339(seconds: i64, nanos: i32) -> String {
    use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

    OffsetDateTime::from_unix_timestamp(seconds)
        .ok()
        .and_then(|time| time.checked_add(Duration::nanoseconds(nanos.into())))
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_else(|| format!("{seconds}.{nanos:09}"))
}

/// Formats a point in time like [`rfc3339`]. `millis`: milliseconds since 1970.
pub fn rfc3339_of_millis(millis: i64) -> String {
    let nanos = millis.rem_euclid(1_000) * 1_000_000;
    rfc3339(millis.div_euclid(1_000), i32::try_from(nanos).unwrap_or(0))
}

/// Formats bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composite_keys_are_written_as_json_arrays() {
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
    fn timestamps_are_written_in_utc() {
        assert_eq!(rfc3339(0, 5_000_000), "1970-01-01T00:00:00.005Z");
    }
}
