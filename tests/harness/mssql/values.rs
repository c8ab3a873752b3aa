//! Converts values to SQL literals and parameters, and result columns to values.

use lease_broker_model::key::{hex, rfc3339};
use lease_broker_value::Value;
use tiberius::{ColumnData, FromSql as _, Query};
use time::PrimitiveDateTime;

/// Returns a value as a SQL literal.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(bool) => u8::from(*bool).to_string(),
        Value::Int(int) => int.to_string(),
        Value::Double(double) => format!("{double:e}"),
        Value::Text(text) => format!("N'{}'", text.replace('\'', "''")),
        Value::Bytes(bytes) => format!("0x{}", hex(bytes)),
        Value::Decimal(digits) => digits.clone(),
        Value::Timestamp { seconds, nanos } => {
            let text = rfc3339(*seconds, *nanos);
            format!("CAST('{}' AS datetime2(7))", text.replace('Z', ""))
        }
    }
}

/// Returns whether a value is sent as a parameter.
///
/// Texts and bytes are, because they may contain anything. Numbers are, because a literal could lose digits. A parameter
/// has a type, and for all other values this type does not fit every column.
fn is_parameter(value: &Value) -> bool {
    matches!(
        value,
        Value::Text(_) | Value::Bytes(_) | Value::Int(_) | Value::Double(_)
    )
}

/// Returns the SQL of a value: parameter number `index`, or a literal.
pub(super) fn operand(index: usize, value: &Value) -> String {
    if is_parameter(value) {
        format!("@P{index}")
    } else {
        literal(value)
    }
}

/// Binds a value as the next parameter. A value that the statement contains as a literal gets an unused parameter, so
/// that the numbers match.
pub(super) fn bind<'a>(query: &mut Query<'a>, value: &'a Value) {
    match value {
        Value::Text(text) => query.bind(text),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Int(int) => query.bind(*int),
        Value::Double(double) => query.bind(*double),
        _ => query.bind(false),
    }
}

/// Converts a result column to the value that tests compare.
pub(super) fn value(data: ColumnData<'static>) -> Value {
    let value = match data {
        ColumnData::U8(int) => int.map(|int| Value::Int(int.into())),
        ColumnData::I16(int) => int.map(|int| Value::Int(int.into())),
        ColumnData::I32(int) => int.map(|int| Value::Int(int.into())),
        ColumnData::I64(int) => int.map(Value::Int),
        ColumnData::F64(double) => double.map(Value::Double),
        ColumnData::Bit(bool) => bool.map(Value::Bool),
        ColumnData::String(text) => text.map(|text| Value::Text(text.into_owned())),
        ColumnData::Guid(id) => id.map(|id| Value::Text(id.to_string())),
        ColumnData::Binary(bytes) => bytes.map(|bytes| Value::Bytes(bytes.into_owned())),
        ColumnData::Numeric(number) => number.map(|number| Value::Decimal(number.to_string())),
        data @ ColumnData::DateTime2(_) => {
            let time = PrimitiveDateTime::from_sql(&data).expect("a time");
            time.map(|time| {
                let time = time.assume_utc();
                Value::Timestamp {
                    seconds: time.unix_timestamp(),
                    nanos: time.nanosecond().cast_signed(),
                }
            })
        }
        other => panic!("the harness cannot read this type: {other:?}"),
    };
    value.unwrap_or(Value::Null)
}
