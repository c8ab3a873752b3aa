//! Texts for times, durations, states and values.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use lease_broker_model::text::visible_lines;
use lease_broker_proto::ColumnValue;
use lease_broker_proto::column_value::Kind;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use prost_types::{Duration as ProtoDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::grpc::millis;

/// Returns a text as part of a URL.
pub(super) fn url(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Returns a count with a comma before each three digits.
pub(super) fn count(number: i64, at_least: bool) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digit != '-' {
            text.push(',');
        }
        text.push(digit);
    }
    if at_least {
        text.push('+');
    }
    text
}

/// Returns a number with its noun.
pub(super) fn number(number: usize, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!(
        "{} {noun}",
        count(i64::try_from(number).unwrap_or(i64::MAX), false)
    )
}

/// Returns a rate per second.
pub(super) fn rate(rate: f64) -> String {
    if rate == 0.0 {
        "0".to_owned()
    } else if rate < 0.1 {
        format!("{rate:.3}")
    } else if rate < 10.0 {
        format!("{rate:.1}")
    } else {
        format!("{rate:.0}")
    }
}

/// Returns a duration in its two largest units.
pub(super) fn duration(duration: Duration) -> String {
    let text = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

pub(super) fn proto_duration(time: ProtoDuration) -> String {
    duration(Duration::from_secs(time.seconds.max(0).unsigned_abs()))
}

/// Returns a moment as RFC 3339 in whole seconds.
pub(super) fn moment(time: &Timestamp) -> String {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let moment = UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799));
    humantime::format_rfc3339_seconds(moment).to_string()
}

/// Returns how long ago something was, by the database's clock.
pub(super) fn age(age: Option<ProtoDuration>) -> String {
    age.map_or("–".to_owned(), |age| {
        format!("{} ago", proto_duration(age))
    })
}

/// Returns the time until something is due, by the database's clock.
pub(super) fn due(due_in: Option<ProtoDuration>) -> String {
    match due_in {
        None => "–".to_owned(),
        Some(due_in) if due_in == ProtoDuration::default() => "passed".to_owned(),
        Some(due_in) => format!("in {}", proto_duration(due_in)),
    }
}

/// Returns how long ago a moment was. It is for moments of which the API has no age: it compares the moment, which is by the database's
/// clock, with the clock of this host. A moment in the future is so far ahead.
pub(super) fn ago(time: &Timestamp) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let difference = now.saturating_sub(millis(time));
    let text = duration(Duration::from_millis(difference.unsigned_abs()));
    if difference >= 0 {
        format!("{text} ago")
    } else {
        format!("in {text}")
    }
}

/// Returns a value as text, at most 2,000 characters.
pub(super) fn value(value: &ColumnValue) -> String {
    let text = match &value.kind {
        None | Some(Kind::NullValue(_)) => "NULL".to_owned(),
        Some(Kind::BoolValue(value)) => value.to_string(),
        Some(Kind::Int64Value(value)) => value.to_string(),
        Some(Kind::DoubleValue(value)) => value.to_string(),
        Some(Kind::StringValue(value) | Kind::DecimalValue(value)) => value.clone(),
        Some(Kind::BytesValue(bytes)) => format!("{} bytes", bytes.len()),
        Some(Kind::TimestampValue(time)) => moment(time),
    };
    cut(&text, 2_000)
}

/// The longest key or group by which a page links to something, in bytes.
const MAX_NAME: usize = 1_024;

/// Returns whether a page can link to something with this key or group.
pub(super) const fn can_link(name: &str) -> bool {
    name.len() <= MAX_NAME
}

/// Returns a key or a group as text, at most 200 characters. Nothing else bounds them. A blank one, which would be invisible, has quotation
/// marks.
pub(super) fn name(name: &str) -> String {
    if name.trim().is_empty() {
        cut(&format!("\"{name}\""), 200)
    } else {
        cut(name, 200)
    }
}

/// Returns the id of a table's row for something with any name, such as a key. A page that stays fresh needs one for each row: without it,
/// one row would become another one under the focus.
pub(super) fn row_id(kind: &str, name: &str) -> String {
    let hash = Sha256::digest(name);
    format!("{kind}-{}", HEXLOWER.encode(&hash[..16]))
}

/// Returns a text for a page. Characters that are invisible, or that change the direction of text, are escaped.
/// The line ends of forms become those of the other texts.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") {
        Cow::Owned(visible_lines(&text.replace("\r\n", "\n")).into_owned())
    } else {
        visible_lines(text)
    }
}

fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => self::text(text).into_owned(),
        Some((end, _)) => format!("{}…", self::text(&text[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut() {
        assert_eq!(name("ä"), "ä");
        assert_eq!(name(&"ä".repeat(200)), "ä".repeat(200));
        assert_eq!(name(&"ä".repeat(201)), "ä".repeat(200) + "…");
        assert_eq!(name("a\u{202e}b"), r"a\u{202e}b");
        assert_eq!([name(""), name("  ")], ["\"\"", "\"  \""]);
        assert!(!can_link(&"a".repeat(1_025)));
    }

    #[test]
    fn ages_are_by_the_clock_of_the_database() {
        let time = |seconds| {
            Some(ProtoDuration {
                seconds,
                nanos: 5_000_000,
            })
        };
        assert_eq!(age(time(65)), "1m 5s ago");
        assert_eq!(due(time(3_600)), "in 1h");
        assert_eq!(due(time(0)), "in 0s");
        assert_eq!(due(Some(ProtoDuration::default())), "passed");
        assert_eq!([age(None), due(None)], ["–", "–"]);
    }

    #[test]
    fn counts_have_commas() {
        assert_eq!(count(0, false), "0");
        assert_eq!(count(999, false), "999");
        assert_eq!(count(10_000, true), "10,000+");
        assert_eq!(count(1_234_567, false), "1,234,567");
    }
}
