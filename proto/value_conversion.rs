//! Conversions between the message `Value` and the value of a column.

use crate::value::Kind;
use lease_broker_value::Value;

impl From<Value> for crate::Value {
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

/// A message without a value is NULL. The parts of a timestamp are not checked.
impl From<crate::Value> for Value {
    fn from(value: crate::Value) -> Self {
        match value.kind {
            None | Some(Kind::NullValue(_)) => Self::Null,
            Some(Kind::BoolValue(bool)) => Self::Bool(bool),
            Some(Kind::Int64Value(int)) => Self::Int(int),
            Some(Kind::DoubleValue(double)) => Self::Double(double),
            Some(Kind::StringValue(text)) => Self::Text(text),
            Some(Kind::BytesValue(bytes)) => Self::Bytes(bytes),
            Some(Kind::TimestampValue(time)) => Self::Timestamp {
                seconds: time.seconds,
                nanos: time.nanos,
            },
            Some(Kind::DecimalValue(digits)) => Self::Decimal(digits),
        }
    }
}
