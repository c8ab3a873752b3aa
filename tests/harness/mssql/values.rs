//! Values on their way into a statement and out of its result.

use lease_broker::value::{Value, hex, rfc3339};
use tiberius::{ColumnData, FromSql as _, Query};
use time::PrimitiveDateTime;

/// Writes a value as SQL.
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

/// Returns whether a value travels beside the statement: one that any text or bytes may be part of, and one whose every
/// digit counts. The type that a parameter would give the others does not fit every column.
fn is_parameter(value: &Value) -> bool {
    matches!(
        value,
        Value::Text(_) | Value::Bytes(_) | Value::Int(_) | Value::Double(_)
    )
}

/// Writes what stands for a value as parameter number `at`.
pub(super) fn operand(at: usize, value: &Value) -> String {
    if is_parameter(value) {
        format!("@P{at}")
    } else {
        literal(value)
    }
}

/// Adds the next parameter, whether the statement names it or not.
pub(super) fn bind<'a>(query: &mut Query<'a>, value: &'a Value) {
    match value {
        Value::Text(text) => query.bind(text),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Int(int) => query.bind(*int),
        Value::Double(double) => query.bind(*double),
        _ => query.bind(false),
    }
}

/// Reads a value as tests compare it.
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
            let moment = PrimitiveDateTime::from_sql(&data).expect("a moment");
            moment.map(|moment| {
                let moment = moment.assume_utc();
                Value::Timestamp {
                    seconds: moment.unix_timestamp(),
                    nanos: moment.nanosecond().cast_signed(),
                }
            })
        }
        other => panic!("no test reads this type: {other:?}"),
    };
    value.unwrap_or(Value::Null)
}
