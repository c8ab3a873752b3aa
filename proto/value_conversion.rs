//! Conversions between the message `ColumnValue` and the value of a column.

use std::fmt;

use crate::ColumnValue;
use crate::column_value::Kind;
use lease_broker_value::Value;

/// The error of a `ColumnValue` without a kind that this version of the API knows. Such a value is not NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownKind;

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a newer API, or a value without a kind")
    }
}

impl std::error::Error for UnknownKind {}

impl From<Value> for ColumnValue {
    fn from(value: Value) -> Self {
        let kind = match value {
            Value::Null => Kind::NullValue(prost_types::NullValue::NullValue.into()),
            Value::Bool(bool) => Kind::BoolValue(bool),
            Value::Int(int) => Kind::Int64Value(int),
            Value::Double(double) => Kind::DoubleValue(double),
            Value::Text(text) => Kind::StringValue(text),
            Value::Bytes(bytes) => Kind::BytesValue(bytes),
            Value::Timestamp { seconds, nanos } => {
                Kind::TimestampValue(prost_types::Timestamp { seconds, nanos })
            }
            Value::Decimal(digits) => Kind::DecimalValue(digits),
        };
        Self { kind: Some(kind) }
    }
}

/// The parts of a timestamp are not checked.
impl TryFrom<ColumnValue> for Value {
    type Error = UnknownKind;

    fn try_from(value: ColumnValue) -> Result<Self, UnknownKind> {
        Ok(match value.kind.ok_or(UnknownKind)? {
            Kind::NullValue(_) => Self::Null,
            Kind::BoolValue(bool) => Self::Bool(bool),
            Kind::Int64Value(int) => Self::Int(int),
            Kind::DoubleValue(double) => Self::Double(double),
            Kind::StringValue(text) => Self::Text(text),
            Kind::BytesValue(bytes) => Self::Bytes(bytes),
            Kind::TimestampValue(time) => Self::Timestamp {
                seconds: time.seconds,
                nanos: time.nanos,
            },
            Kind::DecimalValue(digits) => Self::Decimal(digits),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_without_a_kind_is_an_error_and_null_is_not() {
        let read = |value: ColumnValue| Value::try_from(value);
        assert_eq!(read(ColumnValue { kind: None }), Err(UnknownKind));
        assert_eq!(read(Value::Null.into()), Ok(Value::Null));
    }
}
