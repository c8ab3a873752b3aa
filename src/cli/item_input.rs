//! Parser for items and columns on the command line and in files: JSON objects, CSV rows, and `COLUMN=VALUE`.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lease_broker_proto as proto;
use lease_broker_proto::column_value::Kind;
use serde_json::{Map, Value as Json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::CommandError;
use crate::json_object::UniqueObject;

/// Parses a JSON object as an item. See [`item_from_json`].
///
/// # Errors
/// A message that names the column, if there is one, and the reason. A field that is there twice is one.
pub(super) fn item_from_text(text: &str) -> Result<proto::NewItem, String> {
    let object = serde_json::from_str::<UniqueObject>(text);
    let not_an_item =
        |error| format!("an item must be a JSON object with one field per column: {error}");
    item_from_json(&object.map_err(not_an_item)?.0)
}

/// Converts a JSON object to an item. Each field is a column.
///
/// A value of a type that JSON lacks is written as an object with one field: `{"bytes": "base64"}`,
/// `{"decimal": "12.50"}` or `{"timestamp": "2026-11-20T22:15:20Z"}`.
///
/// # Errors
/// A message that names the column and the reason.
fn item_from_json(fields: &Map<String, Json>) -> Result<proto::NewItem, String> {
    let columns = fields
        .iter()
        .map(|(name, json)| {
            let kind = kind_of(json).map_err(|reason| format!("column {name:?}: {reason}"))?;
            Ok((name.clone(), proto::ColumnValue { kind: Some(kind) }))
        })
        .collect::<Result<_, String>>()?;
    Ok(proto::NewItem {
        columns,
        ..proto::NewItem::default()
    })
}

fn kind_of(json: &Json) -> Result<Kind, String> {
    Ok(match json {
        Json::Null => Kind::NullValue(prost_types::NullValue::NullValue.into()),
        Json::Bool(bool) => Kind::BoolValue(*bool),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(int), _) => Kind::Int64Value(int),
            (None, Some(double)) if !number.is_u64() => Kind::DoubleValue(double),
            _ => {
                return Err(format!(
                    "{number} does not fit into 64 bits; write {{\"decimal\": \"{number}\"}}"
                ));
            }
        },
        Json::Object(typed) => match typed.iter().next() {
            Some((kind, Json::String(text))) if typed.len() == 1 => match kind.as_str() {
                "bytes" => Kind::BytesValue(
                    STANDARD
                        .decode(text)
                        .map_err(|error| format!("not base64: {error}"))?,
                ),
                "decimal" => Kind::DecimalValue(text.clone()),
                "timestamp" => Kind::TimestampValue(timestamp(text)?),
                other => {
                    return Err(format!(
                        "unknown type {other:?}; expected bytes, decimal or timestamp"
                    ));
                }
            },
            _ => {
                return Err(
                    "an object must be {\"bytes\": …}, {\"decimal\": …} or {\"timestamp\": …}"
                        .to_owned(),
                );
            }
        },
        Json::Array(_) => return Err("the value is a list; expected a single value".to_owned()),
    })
}

fn timestamp(text: &str) -> Result<prost_types::Timestamp, String> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(|error| {
        format!("{text:?} is not a timestamp such as 2026-11-20T22:15:20Z: {error}")
    })?;
    Ok(prost_types::Timestamp {
        seconds: moment.unix_timestamp(),
        nanos: i32::try_from(moment.nanosecond()).unwrap_or(0),
    })
}

/// Returns the columns that the flags `--set COLUMN=VALUE` give.
///
/// # Errors
/// Wrong usage: a flag without `=`, or two for the same column.
pub(super) fn columns_from_flags(
    flags: &[String],
) -> Result<BTreeMap<String, proto::ColumnValue>, CommandError> {
    let columns = flags.iter().map(|text| {
        text.split_once('=')
            .ok_or_else(|| CommandError::usage(format!("--set {text}: must be COLUMN=VALUE")))
    });
    columns_from_texts(columns.collect::<Result<Vec<_>, _>>()?)
        .map_err(|problem| CommandError::usage(format!("--set: {problem}")))
}

/// Creates columns from names and text values. The database converts each text to the type of its column.
///
/// # Errors
/// A message that names a column that occurs twice.
pub(super) fn columns_from_texts<'a>(
    columns: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<BTreeMap<String, proto::ColumnValue>, String> {
    let text = |text: &str| proto::ColumnValue {
        kind: Some(Kind::StringValue(text.to_owned())),
    };
    let mut found = BTreeMap::new();
    for (name, value) in columns {
        if found.insert(name.to_owned(), text(value)).is_some() {
            return Err(format!("the column {name:?} is given twice"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_object_becomes_typed_columns() {
        let item = item_from_text(&json!({
            "n": null, "b": true, "i": -5, "d": 1.5, "t": "x",
            "raw": {"bytes": "AP8="}, "price": {"decimal": "12.50"}, "at": {"timestamp": "1970-01-01T00:00:01.5Z"},
        })
        .to_string())
        .expect("an item");
        let kind = |name: &str| item.columns[name].kind.clone();
        assert_eq!(kind("n"), Some(Kind::NullValue(0)));
        assert_eq!(kind("b"), Some(Kind::BoolValue(true)));
        assert_eq!(kind("i"), Some(Kind::Int64Value(-5)));
        assert_eq!(kind("d"), Some(Kind::DoubleValue(1.5)));
        assert_eq!(kind("t"), Some(Kind::StringValue("x".into())));
        assert_eq!(kind("raw"), Some(Kind::BytesValue(vec![0, 255])));
        assert_eq!(kind("price"), Some(Kind::DecimalValue("12.50".into())));
        let moment = prost_types::Timestamp {
            seconds: 1,
            nanos: 500_000_000,
        };
        assert_eq!(kind("at"), Some(Kind::TimestampValue(moment)));
    }

    #[test]
    fn column_that_is_given_twice_is_refused() {
        let flags = ["a=1", "b=2", "a=3"].map(str::to_owned);
        let error = columns_from_flags(&flags).expect_err("refused").to_string();
        assert_eq!(error, "--set: the column \"a\" is given twice");
        assert_eq!(columns_from_flags(&flags[..2]).expect("columns").len(), 2);
    }

    #[test]
    fn invalid_item_error_names_the_column() {
        for (json, named) in [
            (json!([1]), "object"),
            (json!({"a": [1]}), "\"a\""),
            (json!({"a": {"hex": "00"}}), "\"a\""),
            (json!({"a": {"bytes": "!"}}), "base64"),
            (json!({"a": 18_446_744_073_709_551_615_u64}), "decimal"),
        ] {
            let error = item_from_text(&json.to_string()).expect_err("refused");
            assert!(error.contains(named), "{error}");
        }
    }
}
