//! Parser of keys in their text form, the one that [`Key`]'s `Display` writes.

use lease_broker_model::key::{INFINITY, Key, NEGATIVE_INFINITY};
use lease_broker_model::text::Quoted;
use lease_broker_value::Value;
use serde_json::Value as Json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::new_item::is_decimal;

/// The kind of a key column's values. It decides how the text of a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    Bool,
    Integer,
    Double,
    Text,
    Bytes,
    Decimal,
    Timestamp,
    /// A number or text, whichever the text is first.
    Any,
    /// A number, bytes or text, whichever the text is first.
    NumberOrBytes,
    /// Bytes, a number or text, whichever the text is first.
    BytesOrNumber,
}

/// Parses the key of a row. `kinds` are those of the key columns.
///
/// # Errors
/// The reason why the text is no key of these columns.
pub(super) fn parse(text: &str, kinds: &[KeyKind]) -> Result<Key, String> {
    parse_given(text, kinds).map_err(|problem| match text {
        "" => "is required".to_owned(),
        _ => problem,
    })
}

fn parse_given(text: &str, kinds: &[KeyKind]) -> Result<Key, String> {
    if let [kind] = kinds {
        let value = value_of_text(text, *kind)?;
        return Ok(Key([value].into()));
    }
    let count = kinds.len();
    let parts: Vec<Json> = serde_json::from_str(text)
        .map_err(|_| format!("{text:?} is not a JSON array of {count} values"))?;
    if parts.len() != count {
        let given = parts.len();
        return Err(format!("{text:?} has {given} values; the key has {count}"));
    }
    let values = parts.iter().zip(kinds).map(|(part, kind)| match part {
        Json::String(text) => match kind {
            KeyKind::Bool | KeyKind::Integer | KeyKind::Double => Err(expected(part, *kind)),
            KeyKind::Any => Ok(infinity(text).unwrap_or_else(|| Value::Text(text.clone()))),
            KeyKind::NumberOrBytes | KeyKind::BytesOrNumber => Ok(infinity(text)
                .or_else(|| bytes_of_hex(text).map(Value::Bytes))
                .unwrap_or_else(|| Value::Text(text.clone()))),
            _ => value_of_text(text, *kind),
        },
        Json::Bool(_) | Json::Number(_) => match kind {
            KeyKind::Bool | KeyKind::Integer | KeyKind::Double | KeyKind::Any => {
                value_of_text(&part.to_string(), *kind)
            }
            KeyKind::NumberOrBytes | KeyKind::BytesOrNumber => {
                value_of_text(&part.to_string(), KeyKind::Any)
            }
            _ => Err(expected(part, *kind)),
        },
        _ => Err(expected(part, *kind)),
    });
    Ok(Key(values.collect::<Result<_, _>>()?))
}

fn value_of_text(text: &str, kind: KeyKind) -> Result<Value, String> {
    let double = || text.parse().ok().filter(|double: &f64| double.is_finite());
    let bytes = || bytes_of_hex(text).map(Value::Bytes);
    let own_text = || Some(Value::Text(text.to_owned()));
    let value = match kind {
        KeyKind::Bool => text.parse().ok().map(Value::Bool),
        KeyKind::Integer => text.parse().ok().map(Value::Int),
        KeyKind::Double => double().map(Value::Double),
        KeyKind::Text => own_text(),
        KeyKind::Bytes => bytes(),
        KeyKind::Decimal => is_decimal(text).then(|| Value::Decimal(text.to_owned())),
        KeyKind::Timestamp => timestamp(text),
        // As SQLite, which ignores spaces around a number.
        KeyKind::Any => number(text.trim_matches(is_space)).or_else(own_text),
        KeyKind::NumberOrBytes => {
            // Hexadecimal digits such as 1e10 are no number if a number is not written so.
            let number =
                number(text).filter(|number| Key([number.clone()].into()).to_string() == text);
            number.or_else(bytes).or_else(own_text)
        }
        KeyKind::BytesOrNumber => bytes().or_else(|| number(text)).or_else(own_text),
    };
    value.ok_or_else(|| expected(Quoted(text), kind))
}

/// Returns whether SQLite ignores a character around a number.
fn is_space(character: char) -> bool {
    matches!(character, '\t'..='\r' | ' ')
}

/// Returns whether a text is stored as a number in a column of numbers.
pub(super) fn is_number(text: &str) -> bool {
    number(text.trim_matches(is_space)).is_some()
}

/// Reads an integer, or another number, which can be infinite.
fn number(text: &str) -> Option<Value> {
    // Rust also reads names such as `inf` and `NaN`.
    let is_number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let int = || text.parse().ok().map(Value::Int);
    let double = || text.parse().ok().map(Value::Double);
    is_number.then(|| int().or_else(double)).flatten()
}

/// Reads the text of an infinite number, which JSON writes as a text.
fn infinity(text: &str) -> Option<Value> {
    let is_infinity = [INFINITY, NEGATIVE_INFINITY].contains(&text);
    is_infinity.then(|| number(text)).flatten()
}

fn expected(part: impl std::fmt::Display, kind: KeyKind) -> String {
    let kind = match kind {
        KeyKind::Bool => "true or false",
        KeyKind::Integer => "an integer of 64 bits",
        KeyKind::Double => "a number",
        KeyKind::Text | KeyKind::Any | KeyKind::NumberOrBytes | KeyKind::BytesOrNumber => "a text",
        KeyKind::Bytes => "bytes in hexadecimal",
        KeyKind::Decimal => "decimal digits such as -12.50",
        KeyKind::Timestamp => "a time such as 2026-11-20T22:15:20Z",
    };
    format!("{part} is not {kind}")
}

/// Returns the bytes that pairs of hexadecimal digits stand for.
pub(super) fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn timestamp(text: &str) -> Option<Value> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(Value::Timestamp {
        seconds: moment.unix_timestamp(),
        nanos: i32::try_from(moment.nanosecond()).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = (Value, KeyKind)> {
        let seconds = -62_135_596_800..253_402_300_800_i64;
        prop_oneof![
            any::<bool>().prop_map(|bool| (Value::Bool(bool), KeyKind::Bool)),
            any::<i64>().prop_map(|int| (Value::Int(int), KeyKind::Integer)),
            any::<i64>().prop_map(|int| (Value::Int(int), KeyKind::Any)),
            any::<i64>().prop_map(|int| (Value::Int(int), KeyKind::NumberOrBytes)),
            prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, 1e300, 0.5])
                .prop_map(|double| (Value::Double(double), KeyKind::Any)),
            any::<Vec<u8>>().prop_map(|bytes| (Value::Bytes(bytes), KeyKind::BytesOrNumber)),
            "[g-z]{1,9}".prop_map(|text| (Value::Text(text), KeyKind::BytesOrNumber)),
            "[g-z]{1,9}".prop_map(|text| (Value::Text(text), KeyKind::NumberOrBytes)),
            (-1e9..1e9).prop_map(|double: f64| (Value::Double(double), KeyKind::Double)),
            any::<String>().prop_map(|text| (Value::Text(text), KeyKind::Text)),
            any::<Vec<u8>>().prop_map(|bytes| (Value::Bytes(bytes), KeyKind::Bytes)),
            "-?[0-9]{1,30}[.][0-9]{1,8}"
                .prop_map(|digits| (Value::Decimal(digits), KeyKind::Decimal)),
            (seconds, 0..1_000_000_000).prop_map(|(seconds, nanos)| {
                (Value::Timestamp { seconds, nanos }, KeyKind::Timestamp)
            }),
        ]
    }

    proptest! {
        #[test]
        fn written_key_is_parsed_to_itself(parts in prop::collection::vec(value(), 1..4)) {
            let (values, kinds): (Vec<Value>, Vec<KeyKind>) = parts.into_iter().unzip();
            let key = Key(values.into());
            prop_assert_eq!(parse(&key.to_string(), &kinds), Ok(key));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text: String, parts in prop::collection::vec(value(), 1..4)) {
            let kinds: Vec<KeyKind> = parts.into_iter().map(|(_, kind)| kind).collect();
            if let Ok(key) = parse(&text, &kinds) {
                prop_assert_eq!(key.0.len(), kinds.len());
            }
        }
    }

    #[test]
    fn spaces_around_a_number_are_ignored_if_the_column_does() {
        let parse = |text: &str, kind| parse(text, &[kind]).map(|key| key.0[0].clone());
        for text in [" 1", "1 ", "\t1\r\n"] {
            assert_eq!(parse(text, KeyKind::Any), Ok(Value::Int(1)), "{text:?}");
            let kept = Ok(Value::Text(text.to_owned()));
            assert_eq!(parse(text, KeyKind::NumberOrBytes), kept, "{text:?}");
        }
        assert_eq!(parse(" 1.5", KeyKind::Any), Ok(Value::Double(1.5)));
        assert_eq!(parse(" ", KeyKind::Any), Ok(Value::Text(" ".to_owned())));
    }

    #[test]
    fn malformed_keys_are_refused() {
        use KeyKind::{Bytes, Integer, Text};
        for (text, kinds) in [
            ("x", &[Integer][..]),
            ("1.5", &[Integer]),
            ("", &[Integer]),
            ("abc", &[Bytes]),
            ("1", &[Integer, Text]),
            ("[1]", &[Integer, Text]),
            ("[1,2]", &[Integer, Text]),
            ("[\"1\",\"a\"]", &[Integer, Text]),
            ("[1,null]", &[Integer, Text]),
            ("[1,\"a\",2]", &[Integer, Text]),
        ] {
            assert!(parse(text, kinds).is_err(), "{text}");
        }
        let problem = |text: &str| parse(text, &[Integer]).expect_err("no key");
        assert_eq!(problem(""), "is required");
        assert_eq!(problem("x"), "\"x\" is not an integer of 64 bits");
    }
}
