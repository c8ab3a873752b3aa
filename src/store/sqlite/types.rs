//! Converts values between the broker and SQLite's columns. A value that a column would change is refused.

use lease_broker_value::Value;
use rusqlite::types::{Value as SqlValue, ValueRef};
use time::{Duration, OffsetDateTime, macros::format_description};

use crate::new_item::is_decimal;

/// The type of a column: its affinity, which SQLite derives from the declared type
/// (<https://sqlite.org/datatype3.html>, section 3.1), or `Bool` for a column that is declared as a truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    Integer,
    /// An `INTEGER PRIMARY KEY`. It is the number of the row, and SQLite gives a new row the next one.
    RowNumber,
    Bool,
    Text,
    Blob,
    Real,
    Numeric,
}

/// The largest row number that a caller can set: 2^53. SQLite counts on from the largest one, so a row with the largest
/// integer would be the last of its table.
pub(super) const MAX_ROW_NUMBER: i64 = 1 << 53;

impl ColumnType {
    /// Returns the type for a declared type such as `nvarchar(100)`.
    pub(super) fn of_declaration(declared: &str) -> Self {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if matches!(declared.as_str(), "BOOL" | "BOOLEAN" | "BIT") {
            Self::Bool
        } else if has("INT") {
            Self::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Self::Text
        } else if has("BLOB") || declared.is_empty() || declared == "ANY" {
            Self::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Self::Real
        } else {
            Self::Numeric
        }
    }

    fn is_whole(self) -> bool {
        matches!(self, Self::Integer | Self::RowNumber | Self::Bool)
    }

    fn is_number(self) -> bool {
        matches!(
            self,
            Self::Integer | Self::RowNumber | Self::Bool | Self::Real | Self::Numeric
        )
    }
}

/// Returns a value as it is stored. Text that is not valid UTF-8 is returned as bytes.
pub(super) fn read(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(int) => Value::Int(int),
        ValueRef::Real(double) => Value::Double(double),
        ValueRef::Text(bytes) => match str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Bytes(bytes.to_vec()),
        },
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

/// Returns the value of a data column as it is stored. 0 and 1 in a `Bool` column are returned as truth values.
pub(super) fn read_column(value: ValueRef<'_>, column: ColumnType) -> Value {
    match (column, value) {
        (ColumnType::Bool, ValueRef::Integer(int @ (0 | 1))) => Value::Bool(int == 1),
        _ => read(value),
    }
}

/// Returns the SQL value to bind for `value`.
///
/// # Errors
/// The reason, if the column would store a different value.
pub(super) fn store(value: &Value, column: ColumnType) -> Result<SqlValue, String> {
    if column == ColumnType::RowNumber && is_over_max_row_number(value) {
        return Err(format!(
            "must be at most {MAX_ROW_NUMBER}: the table counts this column up from its largest value"
        ));
    }
    let refuse = |reason: &str| Err(format!("{} {reason}", value.type_name()));
    match value {
        Value::Null => Ok(SqlValue::Null),
        Value::Bool(bool) => Ok(SqlValue::Integer((*bool).into())),
        Value::Int(int) if column == ColumnType::Real && !fits_double(*int) => {
            refuse("does not fit a floating-point column exactly")
        }
        Value::Int(int) => Ok(SqlValue::Integer(*int)),
        Value::Double(double) if double.is_nan() => {
            refuse("is not a number, which SQLite would store as NULL")
        }
        Value::Double(double) if column.is_whole() && double.fract() != 0.0 => {
            refuse("does not fit a column of integers")
        }
        Value::Double(double) => Ok(SqlValue::Real(*double)),
        // A `Numeric` column accepts every text: DATETIME has this affinity and stores dates as text.
        Value::Text(text)
            if (column.is_whole() || column == ColumnType::Real)
                && text.trim().parse::<f64>().is_err() =>
        {
            refuse("must be a number for this column")
        }
        Value::Text(text) => Ok(SqlValue::Text(text.clone())),
        Value::Bytes(_) if column.is_whole() || column == ColumnType::Real => {
            refuse("does not fit a number column")
        }
        Value::Bytes(bytes) => Ok(SqlValue::Blob(bytes.clone())),
        Value::Timestamp { seconds, nanos } => {
            if column.is_whole() || column == ColumnType::Real {
                return refuse("does not fit a number column");
            }
            match date_text(*seconds, *nanos) {
                Some(text) => Ok(SqlValue::Text(text)),
                None => refuse("is outside the years 0001 to 9999"),
            }
        }
        Value::Decimal(digits) if !is_decimal(digits) => {
            refuse("must be decimal digits such as -12.50")
        }
        Value::Decimal(digits) => {
            // SQLite keeps 15 significant digits when it converts text to a number.
            let significant = digits
                .trim_start_matches(['-', '+', '0', '.'])
                .bytes()
                .filter(u8::is_ascii_digit)
                .count();
            if column.is_number() && significant > 15 {
                refuse("has more than the 15 digits that a number column stores; use a text column")
            } else {
                Ok(SqlValue::Text(digits.clone()))
            }
        }
    }
}

/// Returns whether SQLite would store the value as a row number over the maximum. It converts text and floating-point
/// numbers to integers.
#[expect(clippy::cast_precision_loss, reason = "2^53 is exact")]
fn is_over_max_row_number(value: &Value) -> bool {
    match value {
        Value::Int(int) => *int > MAX_ROW_NUMBER,
        Value::Double(double) => *double > MAX_ROW_NUMBER as f64,
        Value::Text(text) | Value::Decimal(text) => text
            .trim()
            .parse::<f64>()
            .is_ok_and(|number| number > MAX_ROW_NUMBER as f64),
        _ => false,
    }
}

/// Returns the SQL value for a key's value, which was read from the key column before.
pub(super) fn store_key(value: &Value) -> SqlValue {
    store(value, ColumnType::Blob).unwrap_or(SqlValue::Null)
}

/// Returns true if a floating-point number can store the integer exactly.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn fits_double(int: i64) -> bool {
    int.unsigned_abs() <= 1 << 53 || (int as f64) as i128 == i128::from(int)
}

/// Formats a time as SQLite's date functions read it, with as many decimals as needed. Returns `None` for a time
/// outside the years 1 to 9999.
fn date_text(seconds: i64, nanos: i32) -> Option<String> {
    let seconds_format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    let fraction_format =
        format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:1+]");
    let moment = OffsetDateTime::from_unix_timestamp(seconds)
        .ok()?
        .checked_add(Duration::nanoseconds(nanos.into()))?;
    if moment.year() < 1 {
        return None;
    }
    if moment.nanosecond() == 0 {
        moment.format(seconds_format).ok()
    } else {
        moment.format(fraction_format).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_type_has_documented_affinity() {
        use ColumnType::{Blob, Bool, Integer, Numeric, Real, Text};
        for (declared, expected) in [
            ("bigint", Integer),
            ("BIT", Bool),
            ("boolean", Bool),
            ("nvarchar(100)", Text),
            ("CLOB", Text),
            ("", Blob),
            ("blob", Blob),
            ("double precision", Real),
            ("decimal(38,4)", Numeric),
            ("datetime", Numeric),
        ] {
            assert_eq!(ColumnType::of_declaration(declared), expected, "{declared}");
        }
    }

    #[test]
    fn row_number_over_2_to_the_53_is_refused() {
        let largest = MAX_ROW_NUMBER.to_string();
        for allowed in [
            Value::Int(MAX_ROW_NUMBER),
            Value::Text(largest),
            Value::Int(-1),
        ] {
            assert!(
                store(&allowed, ColumnType::RowNumber).is_ok(),
                "{allowed:?}"
            );
        }
        for refused in [
            Value::Int(MAX_ROW_NUMBER + 1),
            Value::Int(i64::MAX),
            Value::Double(9.2e18),
            Value::Text(" 9223372036854775807 ".into()),
            Value::Text("9.2e18".into()),
            Value::Decimal("9223372036854775807".into()),
        ] {
            assert!(
                store(&refused, ColumnType::RowNumber).is_err(),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn value_that_column_would_change_is_refused() {
        let long = Value::Decimal("12345678901234567.89".into());
        assert!(store(&long, ColumnType::Numeric).is_err());
        assert_eq!(
            store(&long, ColumnType::Text),
            Ok(SqlValue::Text("12345678901234567.89".into()))
        );
        assert!(store(&Value::Decimal("1e5".into()), ColumnType::Text).is_err());
        assert!(store(&Value::Double(1.5), ColumnType::Integer).is_err());
        assert!(store(&Value::Double(f64::INFINITY), ColumnType::Integer).is_err());
        assert!(store(&Value::Text("many".into()), ColumnType::Integer).is_err());
        assert!(store(&Value::Bytes(vec![1]), ColumnType::Real).is_err());
        let uuid = ColumnType::of_declaration("uniqueidentifier");
        assert_eq!(
            store(&Value::Bytes(vec![1]), uuid),
            Ok(SqlValue::Blob(vec![1]))
        );
        assert!(store(&Value::Double(f64::NAN), ColumnType::Real).is_err());
        assert!(store(&Value::Int((1 << 53) + 1), ColumnType::Real).is_err());
        assert_eq!(
            store(&Value::Int(1 << 60), ColumnType::Real),
            Ok(SqlValue::Integer(1 << 60))
        );
        let moment = Value::Timestamp {
            seconds: 0,
            nanos: 120_000_000,
        };
        assert!(store(&moment, ColumnType::Integer).is_err());
        assert_eq!(
            store(&moment, ColumnType::Numeric),
            Ok(SqlValue::Text("1970-01-01 00:00:00.12".into()))
        );
    }
}
