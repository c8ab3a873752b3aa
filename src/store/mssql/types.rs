//! Conversion between the API's values and SQL Server's types. A value that cannot be converted without loss is
//! refused.

use lease_broker_model::key::{Key, rfc3339, rfc3339_of_millis};
use lease_broker_value::Value;
use serde_json::{Value as Json, json};
use tiberius::ColumnData;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use super::list_parameters::{EntryValue, unescape_sql};
use crate::StoreError;
use crate::new_item::is_decimal;
use crate::time_text::{parse_date, parse_time, parse_zoned, text_of_time, timestamp};

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    /// An integer from the first to the second bound, both included.
    Int(i64, i64),
    Bool,
    Text,
    Binary,
    Float,
    Decimal,
    /// `money` or `smallmoney`. The driver would read it as a floating-point number, so statements convert it to a
    /// decimal.
    Money,
    DateTime,
    DateTimeOffset,
    Date,
    Time,
    Guid,
    Xml,
    /// `json` of SQL Server 2025 and Azure SQL, as text.
    Json,
    RowVersion,
    /// Any other type. Its values cannot be set.
    Other,
}

impl ColumnType {
    /// Returns the kind for a type name of `sys.types`.
    pub(super) fn from_type_name(name: &str) -> Self {
        match name {
            "tinyint" => Self::Int(0, 255),
            "smallint" => Self::Int(i16::MIN.into(), i16::MAX.into()),
            "int" => Self::Int(i32::MIN.into(), i32::MAX.into()),
            "bigint" => Self::Int(i64::MIN, i64::MAX),
            "bit" => Self::Bool,
            "char" | "varchar" | "nchar" | "nvarchar" | "text" | "ntext" | "sysname" => Self::Text,
            "binary" | "varbinary" | "image" => Self::Binary,
            "float" | "real" => Self::Float,
            "decimal" | "numeric" => Self::Decimal,
            "money" | "smallmoney" => Self::Money,
            "datetime" | "datetime2" | "smalldatetime" => Self::DateTime,
            "datetimeoffset" => Self::DateTimeOffset,
            "date" => Self::Date,
            "time" => Self::Time,
            "uniqueidentifier" => Self::Guid,
            "xml" => Self::Xml,
            "json" => Self::Json,
            "timestamp" | "rowversion" => Self::RowVersion,
            _ => Self::Other,
        }
    }

    /// Returns whether a column of this kind can return this value. NULL is not accepted.
    pub(super) fn can_return(self, value: &Value) -> bool {
        match self {
            Self::Int(min, max) => {
                matches!(value, Value::Int(int) if (min..=max).contains(int))
            }
            Self::Bool => matches!(value, Value::Bool(_)),
            Self::Binary | Self::RowVersion => matches!(value, Value::Bytes(_)),
            Self::Float => matches!(value, Value::Double(_)),
            Self::Decimal | Self::Money => matches!(value, Value::Decimal(_)),
            Self::DateTime | Self::DateTimeOffset => matches!(value, Value::Timestamp { .. }),
            Self::Text | Self::Date | Self::Time | Self::Guid | Self::Xml | Self::Json => {
                matches!(value, Value::Text(_))
            }
            Self::Other => *value != Value::Null,
        }
    }

    /// Renders the `OPENJSON` column for the value `name` of a list. `declared` is the type of the table's column.
    pub(super) fn json_declaration(self, name: &str, declared: &str) -> String {
        match self {
            Self::Binary | Self::RowVersion => {
                format!("{name} int '$.{name}[0]', {name}l int '$.{name}[1]'")
            }
            // Without a limit, because OPENJSON would silently cut off a text that is longer than its column.
            Self::Text | Self::Xml | Self::Json => {
                format!("{name} nvarchar(max) '$.{name}'")
            }
            _ => format!("{name} {declared} '$.{name}'"),
        }
    }

    /// Renders the expression that converts the `OPENJSON` column `name` into a value of this kind.
    pub(super) fn of_json(self, name: &str) -> String {
        match self {
            Self::Binary | Self::RowVersion => format!("SUBSTRING(@P3, {name}, {name}l)"),
            Self::Text => unescape_sql(name),
            Self::Xml => format!("CONVERT(xml, {})", unescape_sql(name)),
            Self::Json => format!("CONVERT(json, {})", unescape_sql(name)),
            _ => name.to_owned(),
        }
    }
}

/// Decodes a value from the server. NULL, and a value of a type that the API does not have, become [`Value::Null`].
pub(super) fn decode(data: &ColumnData<'static>) -> Result<Value, StoreError> {
    Ok(match data {
        ColumnData::U8(Some(int)) => Value::Int((*int).into()),
        ColumnData::I16(Some(int)) => Value::Int((*int).into()),
        ColumnData::I32(Some(int)) => Value::Int((*int).into()),
        ColumnData::I64(Some(int)) => Value::Int(*int),
        ColumnData::F32(Some(double)) => Value::Double((*double).into()),
        ColumnData::F64(Some(double)) => Value::Double(*double),
        ColumnData::Bit(Some(bool)) => Value::Bool(*bool),
        ColumnData::String(Some(text)) => Value::Text(text.to_string()),
        ColumnData::Guid(Some(guid)) => Value::Text(guid.to_string()),
        ColumnData::Binary(Some(bytes)) => Value::Bytes(bytes.to_vec()),
        ColumnData::Numeric(Some(number)) => Value::Decimal(digits(number.value(), number.scale())),
        ColumnData::Xml(Some(xml)) => Value::Text(xml.to_string()),
        ColumnData::DateTime(Some(moment)) => {
            // Days since 1900, and the time in units of 1/300 s. They stand for rounded milliseconds.
            let millis = (i128::from(moment.seconds_fragments()) * 10 + 1) / 3;
            timestamp_since(1900, moment.days().into(), millis * 1_000_000)?
        }
        ColumnData::SmallDateTime(Some(moment)) => {
            let minutes = i128::from(moment.seconds_fragments());
            timestamp_since(1900, moment.days().into(), minutes * 60_000_000_000)?
        }
        ColumnData::DateTime2(Some(moment)) => {
            timestamp_since(1, moment.date().days().into(), nanos_of(moment.time()))?
        }
        // The server sends the time in UTC and the offset separately.
        ColumnData::DateTimeOffset(Some(moment)) => {
            let utc = moment.datetime2();
            timestamp_since(1, utc.date().days().into(), nanos_of(utc.time()))?
        }
        ColumnData::Date(Some(day)) => {
            let midnight = text_of(&timestamp_since(1, day.days().into(), 0)?);
            Value::Text(midnight.split('T').next().unwrap_or_default().to_owned())
        }
        ColumnData::Time(Some(time)) => {
            Value::Text(time_of_day(&timestamp_since(1970, 0, nanos_of(*time))?))
        }
        _ => Value::Null,
    })
}

fn nanos_of(time: tiberius::time::Time) -> i128 {
    i128::from(time.increments()) * 10_i128.pow(9_u32.saturating_sub(time.scale().into()))
}

fn timestamp_since(year: i32, days: i64, nanos: i128) -> Result<Value, StoreError> {
    let moment = || {
        let first = time::Date::from_calendar_date(year, time::Month::January, 1).ok()?;
        let midnight = first
            .checked_add(Duration::days(days))?
            .midnight()
            .assume_utc();
        midnight.checked_add(Duration::nanoseconds(i64::try_from(nanos).ok()?))
    };
    let moment = moment().ok_or_else(|| StoreError::Bug("a time out of range".to_owned()))?;
    Ok(timestamp(moment))
}

fn text_of(moment: &Value) -> String {
    match moment {
        Value::Timestamp { seconds, nanos } => rfc3339(*seconds, *nanos),
        _ => String::new(),
    }
}

/// Decodes a time of a soft-lock column, in milliseconds since 1970-01-01T00:00:00Z. `None`: it is NULL.
pub(super) fn millis_since_1970(data: &ColumnData<'static>) -> Result<Option<i64>, StoreError> {
    match decode(data)? {
        Value::Timestamp { seconds, nanos } => {
            Ok(Some(seconds * 1_000 + i64::from(nanos) / 1_000_000))
        }
        _ => Ok(None),
    }
}

fn digits(value: i128, scale: u8) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let scale = usize::from(scale);
    let all = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = all.split_at(all.len() - scale);
    if fraction.is_empty() {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// Encodes a value for a list, to be stored in a column of this kind.
///
/// # Errors
/// The reason why the column cannot store the value.
pub(super) fn encode(value: &Value, column: ColumnType) -> Result<EntryValue, String> {
    match (value, column) {
        (Value::Bytes(bytes), ColumnType::Binary) => Ok(EntryValue::Bytes(bytes.clone())),
        _ => encode_json(value, column).map(EntryValue::Json),
    }
}

fn encode_json(value: &Value, column: ColumnType) -> Result<Json, String> {
    use ColumnType as Column;

    let refuse = |problem: &str| Err(format!("{} {problem}", value.type_name()));
    match (value, column) {
        (Value::Null, _) => Ok(Json::Null),
        (_, Column::Other) => refuse("cannot be stored in a column of this type"),
        (Value::Bool(bool), Column::Bool) => Ok(json!(bool)),
        (Value::Bool(bool), Column::Int(..)) => Ok(json!(i64::from(*bool))),
        (Value::Int(int @ (0 | 1)), Column::Bool) => Ok(json!(*int == 1)),
        (Value::Int(int), Column::Int(min, max)) if (min..=max).contains(int) => Ok(json!(int)),
        (Value::Int(_), Column::Int(..)) => refuse("is out of the column's range"),
        (Value::Int(int), Column::Decimal | Column::Money | Column::Text) => {
            Ok(json!(int.to_string()))
        }
        (Value::Int(int), Column::Float) if int.unsigned_abs() <= 1 << 53 => Ok(json!(int)),
        (Value::Double(double), Column::Float) if double.is_finite() => Ok(json!(double)),
        (Value::Text(text), Column::Text | Column::Xml | Column::Json) => Ok(json!(text)),
        (Value::Text(text), _) => encode_text(text, column),
        (Value::Decimal(digits), Column::Decimal | Column::Money | Column::Text)
            if is_decimal(digits) =>
        {
            Ok(json!(digits))
        }
        (Value::Decimal(_), Column::Decimal | Column::Money) => {
            refuse("must be decimal digits such as -12.50")
        }
        (Value::Timestamp { seconds, nanos }, Column::DateTimeOffset | Column::Text) => {
            match text_of_time(*seconds, *nanos) {
                Some(text) => Ok(json!(text)),
                None => refuse("is outside the years 0001 to 9999"),
            }
        }
        (Value::Timestamp { .. }, Column::DateTime) => Ok(json!(utc_text(value))),
        _ => refuse("does not fit the column's type"),
    }
}

/// Encodes a text, for example from a CSV file, for a column of another type.
///
/// A time is written in one form, because the server reads other forms differently for each type. It ignores an offset in a text
/// for a column without one, so such a column gets the moment in UTC.
fn encode_text(text: &str, column: ColumnType) -> Result<Json, String> {
    let written = text;
    let text = text.trim();
    let require =
        |json: Option<Json>, kind: &str| json.ok_or_else(|| format!("the text is not {kind}"));
    match column {
        ColumnType::Int(min, max) => {
            let int = text.parse().ok().filter(|int| (min..=max).contains(int));
            require(int.map(Json::from), "an integer in the column's range")
        }
        ColumnType::Bool => {
            let bool = match text {
                "0" | "false" => Some(false),
                "1" | "true" => Some(true),
                _ => None,
            };
            require(bool.map(Json::from), "true, false, 1 or 0")
        }
        ColumnType::Float => {
            let double = text.parse::<f64>().ok().filter(|double| double.is_finite());
            require(double.map(Json::from), "a number")
        }
        ColumnType::Decimal | ColumnType::Money => {
            let digits = is_decimal(text).then(|| text.into());
            require(digits, "decimal digits such as -12.50")
        }
        ColumnType::Guid => {
            let guid = text.parse::<uuid::Uuid>().ok();
            require(guid.map(|guid| guid.to_string().into()), "a UUID")
        }
        ColumnType::DateTime | ColumnType::DateTimeOffset => {
            let time = parse_zoned(written);
            let text = time.and_then(|time| match column {
                ColumnType::DateTime => Some(utc_text(&timestamp(time))),
                _ => time.format(&Rfc3339).ok(),
            });
            require(text.map(Json::from), "a time such as 2026-11-20T22:15:20")
        }
        ColumnType::Date => {
            let is_date = parse_date(written).is_some();
            require(is_date.then(|| written.into()), "a date such as 2026-11-20")
        }
        ColumnType::Time => {
            let time =
                parse_time(written).map(|time| OffsetDateTime::UNIX_EPOCH.replace_time(time));
            let text = time.map(|time| time_of_day(&timestamp(time)));
            require(text.map(Json::from), "a time of day such as 22:15:20.5")
        }
        _ => Err("text does not fit the column's type".to_owned()),
    }
}

/// Returns a time in UTC without its zone, such as `2026-11-20T22:15:20.5`.
fn utc_text(moment: &Value) -> String {
    text_of(moment).trim_end_matches('Z').to_owned()
}

/// Returns the time of day in UTC, such as `22:15:20.5`.
fn time_of_day(moment: &Value) -> String {
    let text = utc_text(moment);
    text.split('T').next_back().unwrap_or_default().to_owned()
}

/// Returns a time as the text that statements convert to `datetime2`. `millis`: milliseconds since 1970. A time outside the years 1
/// to 9999 becomes the nearest one within.
pub(super) fn sql_time(millis: i64) -> String {
    const FIRST: i64 = -62_135_596_800_000;
    const LAST: i64 = 253_402_300_799_999;

    let text = rfc3339_of_millis(millis.clamp(FIRST, LAST));
    text.trim_end_matches('Z').to_owned()
}

/// Returns the name of a group as the text that statements convert to the type of the column.
pub(super) fn group_text(group: &Key) -> String {
    match &group.0[..] {
        [value @ Value::Timestamp { .. }] => utc_text(value),
        _ => group.to_string(),
    }
}

/// Encodes the value of a key for a list.
pub(super) fn encode_key(value: &Value) -> EntryValue {
    EntryValue::Json(match value {
        Value::Bytes(bytes) => return EntryValue::Bytes(bytes.clone()),
        Value::Int(int) => json!(int),
        Value::Bool(bool) => json!(bool),
        Value::Double(double) => json!(double),
        Value::Text(text) | Value::Decimal(text) => json!(text),
        Value::Timestamp { .. } => json!(utc_text(value)),
        Value::Null => Json::Null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_one_form() {
        for (column, text, expected) in [
            (
                ColumnType::DateTimeOffset,
                "2026-11-21 03:45:20.50+05:30",
                "2026-11-21T03:45:20.5+05:30",
            ),
            (
                ColumnType::DateTimeOffset,
                "2026-11-20T22:15-00:30",
                "2026-11-20T22:15:00-00:30",
            ),
            (
                ColumnType::DateTimeOffset,
                "2026-11-20",
                "2026-11-20T00:00:00Z",
            ),
            (
                ColumnType::DateTime,
                "2026-11-21T03:45:20.5+05:30",
                "2026-11-20T22:15:20.5",
            ),
            (ColumnType::Time, "22:15", "22:15:00"),
            (ColumnType::Time, "22:15:20.50", "22:15:20.5"),
        ] {
            let encoded = encode_json(&Value::Text(text.to_owned()), column);
            assert_eq!(encoded, Ok(json!(expected)), "{text}");
        }
    }
}
