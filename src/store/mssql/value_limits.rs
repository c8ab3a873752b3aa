//! Check that a column can store a value without rounding or truncation. The server silently rounds a value with too
//! many digits. For other values it refuses the statement, often without naming the column. So the broker checks before
//! it sends them.

use lease_broker_value::Value;
use time::macros::{date, datetime};
use time::{OffsetDateTime, PrimitiveDateTime};

use super::catalogue::Column;
use super::types::ColumnType;
use crate::time_text::{parse_time, parse_zoned, text_of_time, timestamp};

/// The largest offset of a `datetimeoffset` in seconds, in both directions.
const MAX_OFFSET: i32 = 14 * 3_600;

/// Checks a value against the size, digits and range of its column.
///
/// # Errors
/// The reason why the column cannot store the value exactly.
pub(super) fn check(value: &Value, column: &Column) -> Result<(), String> {
    let (name, sizes) = split_sizes(&column.declared);
    match (value, column.kind) {
        (Value::Text(text), ColumnType::Text) => {
            check_length(text.encode_utf16().count(), sizes[0])
        }
        (Value::Int(int), ColumnType::Text) => check_length(int.to_string().len(), sizes[0]),
        (Value::Decimal(digits), ColumnType::Text) => check_length(digits.len(), sizes[0]),
        (Value::Timestamp { seconds, nanos }, ColumnType::Text) => {
            let text = text_of_time(*seconds, *nanos).unwrap_or_default();
            check_length(text.len(), sizes[0])
        }
        (Value::Bytes(bytes), ColumnType::Binary) => check_length(bytes.len(), sizes[0]),
        (Value::Text(digits) | Value::Decimal(digits), ColumnType::Decimal | ColumnType::Money) => {
            check_decimal(digits.trim(), sizes)
        }
        (Value::Int(int), ColumnType::Decimal | ColumnType::Money) => {
            check_decimal(&int.to_string(), sizes)
        }
        (Value::Double(double), ColumnType::Float) if name == "real" => check_real(*double),
        (
            Value::Timestamp { seconds, nanos },
            ColumnType::DateTime | ColumnType::DateTimeOffset,
        ) => {
            let nanos = i128::from(*seconds) * 1_000_000_000 + i128::from(*nanos);
            let moment = OffsetDateTime::from_unix_timestamp_nanos(nanos);
            let moment = moment.map_err(|_| "the time must be in the years 1 to 9999")?;
            check_date_time(
                PrimitiveDateTime::new(moment.date(), moment.time()),
                name,
                sizes,
            )
        }
        // The encoder refuses a text that is not a time.
        (Value::Text(text), ColumnType::DateTime | ColumnType::DateTimeOffset) => {
            let Some(time) = parse_zoned(text) else {
                return Ok(());
            };
            if column.kind == ColumnType::DateTimeOffset
                && time.offset().whole_seconds().abs() > MAX_OFFSET
            {
                return Err("the offset is more than 14 hours".to_owned());
            }
            check(&timestamp(time), column)
        }
        (Value::Text(text), ColumnType::Time) => match parse_time(text) {
            Some(time) => check_fraction(time.nanosecond(), scale_of(sizes)),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Splits `name(size, size)`. The size `max` becomes `None`: there is no limit.
pub(super) fn split_sizes(declared: &str) -> (&str, [Option<u32>; 2]) {
    let Some((name, sizes)) = declared.split_once('(') else {
        return (declared, [None, None]);
    };
    let mut sizes = sizes.trim_end_matches(')').split(',');
    let mut next = || sizes.next()?.trim().parse().ok();
    (name, [next(), next()])
}

fn check_length(length: usize, max: Option<u32>) -> Result<(), String> {
    match max {
        Some(max) if length > max as usize => Err(format!(
            "the length is {length}; the column stores at most {max}"
        )),
        _ => Ok(()),
    }
}

fn check_decimal(digits: &str, sizes: [Option<u32>; 2]) -> Result<(), String> {
    let [Some(precision), Some(scale)] = sizes else {
        return Ok(());
    };
    let unsigned = digits.trim_start_matches(['-', '+']);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole = whole.trim_start_matches('0').len();
    let fraction = fraction.trim_end_matches('0').len();
    if fraction > scale as usize {
        return Err(format!(
            "the number has {fraction} decimal places; the column stores {scale}"
        ));
    }
    if whole > (precision - scale.min(precision)) as usize {
        return Err(format!(
            "the number is too large; the column stores {precision} digits, {scale} of them decimal places"
        ));
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the comparison detects a truncation"
)]
fn check_real(double: f64) -> Result<(), String> {
    if f64::from(double as f32).to_bits() == double.to_bits() {
        Ok(())
    } else {
        Err(
            "the number has too many digits for a real column, or is too large or too small"
                .to_owned(),
        )
    }
}

fn check_date_time(
    moment: PrimitiveDateTime,
    name: &str,
    sizes: [Option<u32>; 2],
) -> Result<(), String> {
    let nanos = moment.nanosecond();
    let (first, last) = match name {
        "datetime" => (
            datetime!(1753-01-01 0:00),
            datetime!(9999-12-31 23:59:59.997),
        ),
        "smalldatetime" => (datetime!(1900-01-01 0:00), datetime!(2079-06-06 23:59)),
        _ => (
            date!(0001 - 01 - 01).midnight(),
            datetime!(9999-12-31 23:59:59.9999999),
        ),
    };
    if !(first..=last).contains(&moment) {
        return Err(format!(
            "the time is out of range; a {name} is between {first} and {last}"
        ));
    }
    match name {
        "datetime"
            if !nanos.is_multiple_of(1_000_000)
                || ![0, 3, 7].contains(&(nanos / 1_000_000 % 10)) =>
        {
            Err("the time cannot be stored exactly: the milliseconds of a datetime end in 0, 3 or 7".to_owned())
        }
        "smalldatetime" if nanos != 0 || moment.second() != 0 => Err("the time has seconds; a smalldatetime stores whole minutes".to_owned()),
        "datetime" | "smalldatetime" => Ok(()),
        _ => check_fraction(nanos, scale_of(sizes)),
    }
}

/// Returns the number of decimal places of a second: the declared one, or 7.
fn scale_of(sizes: [Option<u32>; 2]) -> u32 {
    sizes[0].unwrap_or(7)
}

fn check_fraction(nanos: u32, scale: u32) -> Result<(), String> {
    if nanos.is_multiple_of(10_u32.pow(9_u32.saturating_sub(scale))) {
        Ok(())
    } else {
        Err(format!(
            "the seconds have too many decimal places; the column stores {scale}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mssql::types::encode;

    fn problem(declared: &str, value: &Value) -> Option<String> {
        let column = Column {
            name: "c".to_owned(),
            declared: match declared {
                "money" => "decimal(19,4)".to_owned(),
                other => other.to_owned(),
            },
            nullable: true,
            ..Column::of_type(declared.split('(').next().expect("a name"))
        };
        let encoded = check(value, &column).and_then(|()| encode(value, column.kind));
        encoded.err()
    }

    fn moment(nanos: i32) -> Value {
        Value::Timestamp { seconds: 60, nanos }
    }

    fn digits(text: &str) -> Value {
        Value::Decimal(text.to_owned())
    }

    #[test]
    fn exact_values_are_accepted() {
        for (declared, value) in [
            ("decimal(5,2)", digits("-999.99")),
            ("decimal(5,2)", digits("0001.5000")),
            ("decimal(38,0)", digits(&"9".repeat(38))),
            ("money", digits("-1.2345")),
            ("real", Value::Double(0.5)),
            ("datetime", moment(7_000_000)),
            ("datetime2(3)", moment(1_000_000)),
            ("datetime2(7)", moment(100)),
            ("smalldatetime", moment(0)),
            ("nvarchar(3)", Value::Text("☂☂☂".to_owned())),
            ("nvarchar(max)", Value::Text("long".repeat(9_999))),
            ("varbinary(2)", Value::Bytes(vec![1, 2])),
            ("date", Value::Text("2024-02-29".to_owned())),
            ("time(3)", Value::Text("23:59:59.999".to_owned())),
            ("datetime", Value::Text("1752-12-31T23:00-01:00".to_owned())),
            (
                "datetimeoffset(3)",
                Value::Text("2026-11-20 22:15:20.5 -14:00".to_owned()),
            ),
        ] {
            assert_eq!(problem(declared, &value), None, "{declared} {value:?}");
        }
    }

    #[test]
    fn rounded_truncated_or_out_of_range_values_are_refused() {
        for (declared, value) in [
            ("decimal(5,2)", digits("1000.00")),
            ("decimal(5,2)", digits("1.005")),
            ("money", digits("1.00005")),
            ("real", Value::Double(0.1)),
            ("datetime", moment(1_000_000)),
            ("datetime2(3)", moment(1)),
            ("datetime2(7)", moment(10)),
            (
                "smalldatetime",
                Value::Timestamp {
                    seconds: 1,
                    nanos: 0,
                },
            ),
            (
                "datetime",
                Value::Timestamp {
                    seconds: -6_847_804_801,
                    nanos: 0,
                },
            ),
            ("nvarchar(3)", Value::Text("four".to_owned())),
            ("nvarchar(1)", Value::Text("🦀".to_owned())),
            ("varbinary(2)", Value::Bytes(vec![1, 2, 3])),
            ("date", Value::Text("2026-02-30".to_owned())),
            ("time(3)", Value::Text("25:00".to_owned())),
            ("time(3)", Value::Text("12:00:00.0001".to_owned())),
            ("datetime", Value::Text("1753-01-01T00:30+01:00".to_owned())),
            (
                "datetimeoffset(3)",
                Value::Text("2026-11-20T22:15:20.0001Z".to_owned()),
            ),
        ] {
            assert!(problem(declared, &value).is_some(), "{declared} {value:?}");
        }
    }
}
