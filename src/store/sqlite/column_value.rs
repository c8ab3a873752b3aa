//! Converts values between the broker and SQLite's columns. A worker reads the value that was stored, in the kind that the
//! column's declared type stands for. A value that the column would change is refused.

use lease_broker_model::key::hex;
use lease_broker_value::Value;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use uuid::Uuid;

use super::moments;
use super::numbers::{Number, decimal_of_double, is_plain, looks_like_number, pad};
use super::types::{ColumnType, MAX_ROW_NUMBER};
use crate::key_text::bytes_of_hex;
use crate::new_item::is_decimal;
use crate::time_text::{self, parse_zoned, timestamp};

/// Returns the value of a key column, or of the column that names groups. It names its row or its group, so no two different
/// values become equal, and [`Stored`] binds the same value again.
///
/// Text that is not valid UTF-8 becomes a decimal with the hexadecimal digits of its bytes. No other value of such a column is a
/// decimal.
pub(super) fn read(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(int) => Value::Int(int),
        ValueRef::Real(double) => Value::Double(double),
        ValueRef::Text(bytes) => match str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Decimal(hex(bytes)),
        },
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

/// A value that [`read`] has returned, as a parameter. Values of other kinds are NULL: no row has them.
pub(super) struct Stored<'a> {
    value: &'a Value,
    /// The bytes of text that is not valid UTF-8.
    text: Option<Vec<u8>>,
}

impl<'a> Stored<'a> {
    pub(super) fn new(value: &'a Value) -> Self {
        let text = match value {
            Value::Decimal(digits) => bytes_of_hex(digits),
            _ => None,
        };
        Self { value, text }
    }
}

impl ToSql for Stored<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.value {
            Value::Int(int) => ValueRef::Integer(*int),
            Value::Double(double) => ValueRef::Real(*double),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
            Value::Decimal(_) => match &self.text {
                Some(text) => ValueRef::Text(text),
                None => ValueRef::Null,
            },
            Value::Null | Value::Bool(_) | Value::Timestamp { .. } => ValueRef::Null,
        }))
    }
}

/// Returns the value of a data column, in the kind that the column stands for. Other programs can store any value in any
/// column, and a value of no such kind is returned as it is stored. Text that is not valid UTF-8 is returned as bytes.
pub(super) fn read_column(value: ValueRef<'_>, column: ColumnType) -> Value {
    let converted = match (column, value) {
        (ColumnType::Bool, ValueRef::Integer(int @ (0 | 1))) => Some(Value::Bool(int == 1)),
        (ColumnType::Decimal { scale }, ValueRef::Integer(int)) => {
            Some(Value::Decimal(pad(int.to_string(), scale.into())))
        }
        (ColumnType::Decimal { scale }, ValueRef::Real(double)) => {
            decimal_of_double(double).map(|digits| Value::Decimal(pad(digits, scale.into())))
        }
        (ColumnType::Timestamp, ValueRef::Integer(int)) => moments::of_integer(int),
        (ColumnType::Timestamp, ValueRef::Real(double)) => moments::of_double(double),
        (ColumnType::Timestamp, ValueRef::Text(text)) => {
            str::from_utf8(text).ok().and_then(moment_of)
        }
        (_, ValueRef::Text(text)) if str::from_utf8(text).is_err() => {
            Some(Value::Bytes(text.to_vec()))
        }
        _ => None,
    };
    converted.unwrap_or_else(|| read(value))
}

/// Returns the SQL value to bind for `value`. SQLite stores it unchanged, and [`read_column`] returns an equal value.
///
/// A column accepts the kinds of values that a column of this type accepts in SQL Server.
///
/// # Errors
/// The reason why the column cannot store the value.
pub(super) fn store(value: &Value, column: ColumnType) -> Result<SqlValue, String> {
    use ColumnType as Column;

    match (value, column) {
        (Value::Null, _) => Ok(SqlValue::Null),
        (Value::Double(double), _) if double.is_nan() => {
            refuse(value, "is not a number, which SQLite would store as NULL")
        }
        (Value::Int(int), Column::RowNumber) => row_number(*int),
        (Value::Text(text), Column::RowNumber) => row_number(integer(text)?),
        (Value::Double(double), Column::Real) if *double == 0.0 && double.is_sign_negative() => {
            refuse(value, "is -0.0, which SQLite would store as 0.0")
        }
        (Value::Bool(bool), Column::Integer | Column::RowNumber | Column::Bool) => {
            Ok(SqlValue::Integer((*bool).into()))
        }
        (Value::Int(0 | 1), Column::Bool)
        | (
            Value::Int(_),
            Column::Integer | Column::Decimal { .. } | Column::Numeric | Column::Any,
        ) => store_integer(value),
        (Value::Int(int), Column::Real) if fits_double(*int) => store_integer(value),
        (Value::Int(_), Column::Real) => {
            refuse(value, "does not fit a floating-point column exactly")
        }
        (Value::Int(int), Column::Text) => Ok(SqlValue::Text(int.to_string())),
        (Value::Double(double), Column::Real | Column::Any) => Ok(SqlValue::Real(*double)),
        // SQLite would store a whole number as an integer.
        (Value::Double(double), Column::Numeric) if double.fract() != 0.0 => {
            Ok(SqlValue::Real(*double))
        }
        (Value::Double(_), Column::Numeric) => refuse(
            value,
            "is a whole number for a column of this type; send int64_value",
        ),
        (Value::Double(_), Column::Decimal { .. }) => {
            refuse(value, "is not exact; send decimal_value for this column")
        }
        (Value::Text(text), _) => store_text(text, column),
        (Value::Bytes(bytes), Column::Blob | Column::Any | Column::Uuid | Column::Numeric) => {
            Ok(SqlValue::Blob(bytes.clone()))
        }
        (Value::Decimal(digits), Column::Text | Column::Decimal { .. }) if !is_decimal(digits) => {
            refuse(value, "must be decimal digits such as -12.50")
        }
        (Value::Decimal(digits), Column::Text) => Ok(SqlValue::Text(digits.clone())),
        (Value::Decimal(digits), Column::Decimal { .. }) => decimal(digits),
        (Value::Timestamp { seconds, nanos }, Column::Text | Column::Timestamp) => {
            let text = match column {
                Column::Text => time_text::text_of_time(*seconds, *nanos),
                _ => moments::text_of(*seconds, *nanos),
            };
            match text {
                Some(text) => Ok(SqlValue::Text(text)),
                None => refuse(value, "is outside the years 0001 to 9999"),
            }
        }
        (_, Column::Any) => refuse(
            value,
            "does not come back from a column without a declared type; declare the type of the column",
        ),
        _ => refuse(value, "does not fit the column's type"),
    }
}

/// Returns the moment for which a text stands. `None`: it is not a time.
fn moment_of(text: &str) -> Option<Value> {
    parse_zoned(text).map(timestamp)
}

fn refuse(value: &Value, reason: &str) -> Result<SqlValue, String> {
    Err(format!("{} {reason}", value.type_name()))
}

fn store_integer(value: &Value) -> Result<SqlValue, String> {
    match value {
        Value::Int(int) => Ok(SqlValue::Integer(*int)),
        _ => refuse(value, "does not fit the column's type"),
    }
}

/// Converts a text, for example from a CSV file, for a column of any type.
fn store_text(text: &str, column: ColumnType) -> Result<SqlValue, String> {
    let stored = SqlValue::Text(text.to_owned());
    let refuse = |kind: &str| Err(format!("the text is not {kind}"));
    match column {
        ColumnType::Text | ColumnType::Any => return Ok(stored),
        ColumnType::Integer => return integer(text).map(SqlValue::Integer),
        ColumnType::RowNumber => return row_number(integer(text)?),
        ColumnType::Real => return double(text),
        ColumnType::Decimal { .. } if is_decimal(text) && is_plain(text) => return decimal(text),
        ColumnType::Decimal { .. } => {
            return refuse("decimal digits such as -12.50, without zeros before them");
        }
        ColumnType::Bool => {
            return match text {
                "0" | "false" => Ok(SqlValue::Integer(0)),
                "1" | "true" => Ok(SqlValue::Integer(1)),
                _ => refuse("true, false, 1 or 0"),
            };
        }
        ColumnType::Blob => return Err("text does not fit a column of bytes".to_owned()),
        ColumnType::Timestamp if parse_zoned(text).is_none() => {
            return refuse("a time such as 2026-11-20T22:15:20");
        }
        ColumnType::Date if time_text::parse_date(text).is_none() => {
            return refuse("a date such as 2026-11-20");
        }
        ColumnType::Time if time_text::parse_time(text).is_none() => {
            return refuse("a time of day such as 22:15:20.5");
        }
        ColumnType::Uuid if text.parse::<Uuid>().is_err() => return refuse("a UUID"),
        _ => {}
    }
    if column.makes_numbers() && looks_like_number(text) {
        return Err(
            "the column would store the text as a number; send a number, or declare the column as TEXT".to_owned(),
        );
    }
    Ok(stored)
}

/// Converts a text for a column of integers.
fn integer(text: &str) -> Result<i64, String> {
    let int = text.parse::<i64>().ok();
    int.filter(|int| int.to_string() == text)
        .ok_or_else(|| "the text is not an integer of 64 bits, without zeros before it".to_owned())
}

fn row_number(int: i64) -> Result<SqlValue, String> {
    if int > MAX_ROW_NUMBER {
        return Err(format!(
            "must be at most {MAX_ROW_NUMBER}: the table counts this column up from its largest value"
        ));
    }
    Ok(SqlValue::Integer(int))
}

/// Converts a text for a column of floating-point numbers.
fn double(text: &str) -> Result<SqlValue, String> {
    let number = Number::parse(text).filter(|_| is_plain(text));
    let Some((number, double)) = number.zip(text.parse().ok()) else {
        return Err("the text is not a number such as -12.5 or 1e6".to_owned());
    };
    if Number::of_double(double) == Some(number) {
        store(&Value::Double(double), ColumnType::Real)
    } else {
        Err("the number has too many digits for a floating-point column, or is too large or too small".to_owned())
    }
}

/// Converts decimal digits for a column of decimals. SQLite stores them as an integer or as a floating-point number.
fn decimal(digits: &str) -> Result<SqlValue, String> {
    let number = Number::parse(digits);
    let whole = digits.split_once('.').map_or(digits, |(whole, _)| whole);
    if let Ok(int) = whole.parse::<i64>()
        && Number::parse(whole) == number
    {
        return Ok(SqlValue::Integer(int));
    }
    let double = digits.parse::<f64>().ok();
    let exact = double.filter(|double| {
        let read = decimal_of_double(*double);
        read.is_some_and(|read| Number::parse(&read) == number)
    });
    exact.map(SqlValue::Real).ok_or_else(|| {
        "the number has more digits than SQLite stores exactly, which is about 15; declare the column as TEXT for more".to_owned()
    })
}

/// Returns true if a floating-point number can store the integer exactly.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn fits_double(int: i64) -> bool {
    int.unsigned_abs() <= 1 << 53 || (int as f64) as i128 == i128::from(int)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;

    use super::*;

    /// Declared types. Each kind of column has some.
    const DECLARED: [&str; 27] = [
        "",
        "INTEGER",
        "bigint",
        "INTEGER PRIMARY KEY",
        "TEXT",
        "nvarchar(9)",
        "BLOB",
        "varbinary(9)",
        "REAL",
        "double precision",
        "BOOLEAN",
        "bit",
        "NUMERIC",
        "DECIMAL(9,2)",
        "money",
        "DATETIME",
        "timestamp",
        "datetimeoffset(7)",
        "DATE",
        "TIME",
        "uuid",
        "STRING",
        "json",
        "ANY",
        "INT STRICT",
        "TEXT STRICT",
        "ANY STRICT",
    ];

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn digits(digits: &str) -> Value {
        Value::Decimal(digits.to_owned())
    }

    /// A table with one column, in a real database.
    struct Table {
        connection: Connection,
        column: ColumnType,
    }

    impl Table {
        fn new(declared: &str) -> Self {
            let (declared, strict) = match declared.strip_suffix(" STRICT") {
                None => (declared, ""),
                Some(declared) => (declared, "STRICT"),
            };
            let connection = Connection::open_in_memory().expect("open");
            let create = format!("CREATE TABLE item (value {declared}) {strict}");
            connection.execute_batch(&create).expect(&create);
            let column = match declared {
                "INTEGER PRIMARY KEY" => ColumnType::RowNumber,
                _ => ColumnType::of_declaration(declared, strict == "STRICT"),
            };
            Self { connection, column }
        }

        /// Stores a value as another program does, and returns what a worker reads.
        fn read_after(&self, expression: &str) -> Value {
            let insert = format!("INSERT INTO item VALUES ({expression})");
            self.connection.execute_batch(&insert).expect(&insert);
            self.read()
        }

        fn read(&self) -> Value {
            let last = "SELECT value FROM item ORDER BY rowid DESC LIMIT 1";
            let read = |row: &rusqlite::Row<'_>| Ok(read_column(row.get_ref(0)?, self.column));
            self.connection.query_row(last, [], read).expect("a row")
        }

        /// Stores a value as the broker does, and returns what a worker reads.
        fn round_trip(&self, value: &Value) -> Result<Value, String> {
            let stored = store(value, self.column)?;
            let insert = "INSERT OR REPLACE INTO item VALUES (?1)";
            self.connection.execute(insert, [stored]).expect("inserted");
            Ok(self.read())
        }
    }

    fn round_trip(declared: &str, value: &Value) -> Result<Value, String> {
        Table::new(declared).round_trip(value)
    }

    /// Returns whether a worker read the value that was sent, possibly in another kind.
    fn is_same(sent: &Value, read: &Value) -> bool {
        let is_number = |text: &str, other: Option<Number>| {
            let number = Number::parse(text);
            number.is_some() && number == other
        };
        match (sent, read) {
            (Value::Bool(bool), Value::Int(int)) | (Value::Int(int), Value::Bool(bool)) => {
                *int == i64::from(*bool)
            }
            (Value::Int(int), Value::Decimal(digits)) => {
                is_number(digits, Number::parse(&int.to_string()))
            }
            (Value::Int(int), Value::Double(double)) => format!("{double:.0}") == int.to_string(),
            (Value::Int(int), Value::Text(text)) | (Value::Text(text), Value::Int(int)) => {
                int.to_string() == *text
            }
            (Value::Text(text), Value::Bool(bool)) => {
                *text == bool.to_string() || *text == i64::from(*bool).to_string()
            }
            (Value::Text(text), Value::Double(double)) => {
                is_number(text, Number::of_double(*double))
            }
            (Value::Text(text) | Value::Decimal(text), Value::Decimal(digits)) => {
                is_number(text, Number::parse(digits))
            }
            (Value::Decimal(digits), Value::Text(text)) => digits == text,
            (Value::Text(text), Value::Timestamp { .. }) => moment_of(text).as_ref() == Some(read),
            (Value::Timestamp { .. }, Value::Text(text)) => moment_of(text).as_ref() == Some(sent),
            _ => sent == read,
        }
    }

    /// Returns whether workers expect values of this kind from the column.
    fn is_of_kind(value: &Value, column: ColumnType) -> bool {
        use ColumnType as Column;
        match column {
            Column::Integer | Column::RowNumber => matches!(value, Value::Int(_)),
            Column::Text | Column::Date | Column::Time => matches!(value, Value::Text(_)),
            Column::Blob => matches!(value, Value::Bytes(_)),
            Column::Real => matches!(value, Value::Double(_)),
            Column::Bool => matches!(value, Value::Bool(_)),
            Column::Decimal { .. } => matches!(value, Value::Decimal(_)),
            Column::Timestamp => matches!(value, Value::Timestamp { .. }),
            Column::Uuid => matches!(value, Value::Text(_) | Value::Bytes(_)),
            Column::Any | Column::Numeric => true,
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[-+ ]?[0-9]{1,20}",
            "-?[0-9]{1,12}[.][0-9]{1,8}",
            "[0-9]{1,3}[.]?[0-9]{0,2}[eE][-+]?[0-9]{1,3}",
            "[0-9]{4}-[01][0-9]-[0-3][0-9]",
            "[0-9]{4}-0[1-9]-[12][0-9][ T][01][0-9]:[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?(Z|[-+]0[0-9]:[0-5][0-9])?",
            "[012][0-9]:[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?",
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "[0-9]{28}[0-9e][0-9]{3}",
            prop::sample::select(vec![
                "true", "false", "0", "1", "", "inf", "NaN", "0x1F", "{}"
            ])
            .prop_map(str::to_owned),
        ]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (-3..3_i64).prop_map(Value::Int),
            any::<f64>().prop_map(Value::Double),
            any::<i32>().prop_map(|int| Value::Double(f64::from(int) / 4.0)),
            any_text().prop_map(Value::Text),
            any::<Vec<u8>>().prop_map(Value::Bytes),
            "[-+]?[0-9]{1,20}([.][0-9]{1,20})?".prop_map(Value::Decimal),
            "-?[0-9]{1,9}[.][0-9]{1,6}".prop_map(Value::Decimal),
            any_text().prop_map(Value::Decimal),
            (-70_000_000_000..260_000_000_000_i64, 0..1_000_000_000)
                .prop_map(|(seconds, nanos)| Value::Timestamp { seconds, nanos }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn value_is_refused_or_comes_back_equal(
            declared in prop::sample::select(DECLARED.to_vec()),
            value in any_value(),
        ) {
            let table = Table::new(declared);
            if let Ok(read) = table.round_trip(&value) {
                prop_assert!(is_same(&value, &read), "{:?} became {:?}", value, read);
                prop_assert!(is_of_kind(&read, table.column), "{:?}", read);
            }
        }

        #[test]
        fn stored_value_of_another_program_is_not_lost(
            declared in prop::sample::select(DECLARED.to_vec()),
            value in any_value(),
        ) {
            let table = Table::new(declared);
            let insert = "INSERT OR IGNORE INTO item VALUES (?1)";
            let inserted = table.connection.execute(insert, [Stored::new(&value)]);
            if inserted != Ok(1) {
                return Ok(());
            }
            let stored = "SELECT value FROM item";
            let stored = table.connection.query_row(stored, [], |row| Ok(read(row.get_ref(0)?)));
            let (stored, read) = (stored.expect("a row"), table.read());
            let is_time = matches!(read, Value::Timestamp { .. });
            let is_same_in_another_kind = |read: &Value| match (&stored, read) {
                (Value::Double(double), Value::Decimal(digits)) => {
                    Number::parse(digits) == Number::of_double(*double)
                }
                // Text that is not valid UTF-8.
                (Value::Decimal(digits), Value::Bytes(bytes)) => *digits == hex(bytes),
                _ => false,
            };
            prop_assert!(
                is_time || is_same(&stored, &read) || is_same_in_another_kind(&read),
                "{:?} became {:?}", stored, read
            );
        }
    }

    #[test]
    fn every_kind_of_column_accepts_its_values() {
        let moment = Value::Timestamp {
            seconds: 1_795_212_920,
            nanos: 123_456_789,
        };
        for (declared, sent, expected) in [
            ("DECIMAL(9,2)", digits("12.5"), digits("12.50")),
            ("DECIMAL(9,2)", Value::Int(7), digits("7.00")),
            ("DECIMAL(9,2)", text("-0.125"), digits("-0.125")),
            (
                "NUMERIC",
                digits("9223372036854775807"),
                digits("9223372036854775807"),
            ),
            (
                "NUMERIC",
                digits("123456789012.345"),
                digits("123456789012.345"),
            ),
            (
                "NUMERIC",
                digits("1200000000000000000000"),
                digits("1200000000000000000000"),
            ),
            ("MONEY", digits("-0"), digits("0.0000")),
            ("DATETIME", moment.clone(), moment.clone()),
            ("TIMESTAMP", text("2026-11-20T22:15:20.123456789Z"), moment),
            ("BOOLEAN", text("true"), Value::Bool(true)),
            ("BOOLEAN", Value::Int(0), Value::Bool(false)),
            ("DATE", text("2026-11-20"), text("2026-11-20")),
            ("TIME", text("22:15:20.5"), text("22:15:20.5")),
            ("REAL", text("1e3"), Value::Double(1e3)),
            (
                "REAL",
                Value::Double(f64::INFINITY),
                Value::Double(f64::INFINITY),
            ),
            (
                "TEXT",
                digits("12345678901234567.89"),
                text("12345678901234567.89"),
            ),
            ("TEXT", text("007"), text("007")),
            ("", text("007"), text("007")),
            ("ANY STRICT", text("007"), text("007")),
            ("STRING", text("seven"), text("seven")),
            ("INTEGER", Value::Bool(true), Value::Int(1)),
        ] {
            assert_eq!(
                round_trip(declared, &sent),
                Ok(expected),
                "{declared} {sent:?}"
            );
        }
    }

    #[test]
    fn value_that_column_would_change_is_refused() {
        let moment = Value::Timestamp {
            seconds: 0,
            nanos: 120_000_000,
        };
        for (declared, value) in [
            ("DECIMAL(38,0)", text("123456789012345678901")),
            ("DECIMAL(38,4)", digits("12345678901234567.89")),
            ("NUMERIC", text("007")),
            ("NUMERIC", text(" 7")),
            ("NUMERIC", text("1e3")),
            ("NUMERIC", Value::Double(0.5)),
            ("NUMERIC", digits("1e5")),
            ("TEXT", digits("1e5")),
            ("TEXT", Value::Double(0.1)),
            ("TEXT", Value::Bytes(vec![1])),
            ("TEXT", Value::Bool(true)),
            ("INTEGER", text("007")),
            ("INTEGER", text("many")),
            ("INTEGER", Value::Double(1.5)),
            ("INTEGER", Value::Double(f64::INFINITY)),
            ("INTEGER", moment.clone()),
            ("REAL", Value::Bytes(vec![1])),
            ("REAL", Value::Double(f64::NAN)),
            ("REAL", Value::Double(-0.0)),
            ("REAL", Value::Int((1 << 53) + 1)),
            ("REAL", text("0.12345678901234567890")),
            ("REAL", text("-0.0")),
            ("REAL", text("-0e5")),
            ("REAL", text("007")),
            ("REAL", text("inf")),
            ("BOOLEAN", Value::Int(2)),
            ("DATETIME", text("tomorrow")),
            ("DATETIME", Value::Int(7)),
            ("DATE", text("2026-02-30")),
            ("TIME", text("noon")),
            ("UUID", text("12345678123412341234123412341234")),
            ("STRING", text("007")),
            ("STRING", Value::Double(7.0)),
            ("ANY", text("007")),
            ("", Value::Bool(true)),
            ("", moment),
            ("BLOB", text("seven")),
        ] {
            assert!(
                round_trip(declared, &value).is_err(),
                "{declared} {value:?}"
            );
        }
        let seven = store(&Value::Int(1 << 60), ColumnType::Real);
        assert_eq!(seven, Ok(SqlValue::Integer(1 << 60)));
        let bytes = store(&Value::Bytes(vec![1]), ColumnType::Uuid);
        assert_eq!(bytes, Ok(SqlValue::Blob(vec![1])));
    }

    #[test]
    fn values_of_other_programs_come_in_the_kind_of_the_column() {
        let at = |seconds, nanos| Value::Timestamp { seconds, nanos };
        for (declared, stored, expected) in [
            ("DECIMAL(9,2)", "12.5", digits("12.50")),
            ("DECIMAL(9,2)", "12.555", digits("12.555")),
            ("NUMERIC", "0.1 + 0.2", digits("0.30000000000000004")),
            ("DATETIME", "'2026-11-20 22:15:20'", at(1_795_212_920, 0)),
            (
                "DATETIME",
                "unixepoch('2026-11-20 22:15:20')",
                at(1_795_212_920, 0),
            ),
            (
                "DATETIME",
                "julianday('2026-11-20 22:15:20.123')",
                at(1_795_212_920, 123_000_000),
            ),
            ("DATETIME", "CURRENT_TIMESTAMP IS NOT NULL", Value::Int(1)),
            ("DATETIME", "1795212920123", Value::Int(1_795_212_920_123)),
            ("DATETIME", "'soon'", text("soon")),
            ("BOOLEAN", "TRUE", Value::Bool(true)),
            ("BOOLEAN", "2", Value::Int(2)),
            ("BOOLEAN", "'true'", text("true")),
            ("DECIMAL(9,2)", "'many'", text("many")),
            ("DECIMAL(9,2)", "1e300", Value::Double(1e300)),
            ("DECIMAL(9,2)", "x'00'", Value::Bytes(vec![0])),
            ("INTEGER", "1.5", Value::Double(1.5)),
            ("INTEGER", "'many'", text("many")),
            ("TEXT", "x'00'", Value::Bytes(vec![0])),
            ("DATE", "7", Value::Int(7)),
        ] {
            let read = Table::new(declared).read_after(stored);
            assert_eq!(read, expected, "{declared} {stored}");
        }
    }

    #[test]
    fn row_number_over_2_to_the_53_is_refused() {
        let largest = MAX_ROW_NUMBER.to_string();
        for allowed in [Value::Int(MAX_ROW_NUMBER), text(&largest), Value::Int(-1)] {
            let stored = store(&allowed, ColumnType::RowNumber);
            assert!(stored.is_ok(), "{allowed:?}");
        }
        for refused in [
            Value::Int(MAX_ROW_NUMBER + 1),
            Value::Int(i64::MAX),
            Value::Double(9.2e18),
            text("9223372036854775807"),
            text(" 9223372036854775807 "),
            text("9.2e18"),
            digits("9223372036854775807"),
        ] {
            let stored = store(&refused, ColumnType::RowNumber);
            assert!(stored.is_err(), "{refused:?}");
        }
    }
}
