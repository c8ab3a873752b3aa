//! Dates and times as text, in the forms that SQLite's date functions read (<https://sqlite.org/lang_datefunc.html>). Producers can
//! send them for columns of times, and every store accepts the same ones.

use lease_broker_value::Value;
use time::format_description::well_known::Rfc3339;
use time::{Date, Duration, Month, OffsetDateTime, Time, UtcOffset};

/// Parses a time such as `2026-11-20 22:15:20.5`, `2026-11-20T22:15Z` or `2026-11-20T22:15:20+05:30`. A date without a time is
/// midnight, and a time without an offset is in UTC.
///
/// Returns `None` for a text of another form, for a time that has parts of nanoseconds, and for one that is outside the years 1 to 9999
/// in UTC.
pub(super) fn parse_zoned(text: &str) -> Option<OffsetDateTime> {
    let (date, rest) = text.split_at_checked(10)?;
    let date = parse_date(date)?;
    let (time, offset) = match rest.strip_prefix(['T', ' ']) {
        None if rest.is_empty() => (Time::MIDNIGHT, UtcOffset::UTC),
        None => return None,
        Some(rest) => {
            let end = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
            let (time, zone) = rest.split_at(end);
            (parse_time(time.trim_end_matches(' '))?, parse_offset(zone)?)
        }
    };
    let time = date.with_time(time).assume_offset(offset);
    let utc = time.checked_to_offset(UtcOffset::UTC)?;
    (1..=9_999).contains(&utc.year()).then_some(time)
}

/// Returns a time as a value.
pub(super) fn timestamp(time: OffsetDateTime) -> Value {
    Value::Timestamp {
        seconds: time.unix_timestamp(),
        // There are fewer than 2^31 nanoseconds in a second.
        nanos: i32::try_from(time.nanosecond()).unwrap_or(0),
    }
}

/// Returns the text of a time for a column of texts, such as `2026-11-20T22:15:20.5Z`. `None`: it is outside the years 1 to 9999.
pub(super) fn text_of_time(seconds: i64, nanos: i32) -> Option<String> {
    let moment = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
    let moment = moment.checked_add(Duration::nanoseconds(nanos.into()))?;
    let text = || moment.format(&Rfc3339).ok();
    (1..=9_999).contains(&moment.year()).then(text).flatten()
}

/// Parses a date such as `2026-11-20`.
pub(super) fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let year = number(parts.next()?, 4)?;
    let month = Month::try_from(u8::try_from(number(parts.next()?, 2)?).ok()?).ok()?;
    let day = u8::try_from(number(parts.next()?, 2)?).ok()?;
    if year < 1 || parts.next().is_some() {
        return None;
    }
    Date::from_calendar_date(i32::try_from(year).ok()?, month, day).ok()
}

/// Parses a time of day such as `22:15`, `22:15:20` or `22:15:20.5`.
pub(super) fn parse_time(text: &str) -> Option<Time> {
    let (text, fraction) = match text.split_once('.') {
        None => (text, "0"),
        Some((text, fraction)) => (text, fraction),
    };
    let digits = fraction.trim_end_matches('0');
    if fraction.is_empty() || digits.len() > 9 {
        return None;
    }
    let nanos = number(&format!("{digits:0<9}"), 9)?;
    let mut parts = text.split(':').map(|part| {
        let number = number(part, 2)?;
        u8::try_from(number).ok()
    });
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = match parts.next() {
        None if fraction == "0" && !text.is_empty() => 0,
        second => second??,
    };
    if parts.next().is_some() {
        return None;
    }
    Time::from_hms_nano(hour, minute, second, nanos).ok()
}

/// Parses `Z`, `+05:30` or nothing.
fn parse_offset(text: &str) -> Option<UtcOffset> {
    if matches!(text, "" | "Z" | "z") {
        return Some(UtcOffset::UTC);
    }
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    // SQLite's bounds.
    if hours > 14 || minutes > 59 {
        return None;
    }
    let seconds = i32::try_from(hours * 3_600 + minutes * 60).ok()?;
    let is_negative = text.starts_with('-');
    UtcOffset::from_whole_seconds(if is_negative { -seconds } else { seconds }).ok()
}

/// Parses a number that has exactly this many digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T22:15:20Z.
    const AT: i64 = 1_795_212_920;

    fn moment(text: &str) -> Option<Value> {
        parse_zoned(text).map(timestamp)
    }

    fn time(seconds: i64, nanos: i32) -> Value {
        Value::Timestamp { seconds, nanos }
    }

    #[test]
    fn texts_of_date_functions_are_times() {
        for (text, expected) in [
            ("2026-11-20", time(AT - 80_120, 0)),
            ("2026-11-20 22:15", time(AT - 20, 0)),
            ("2026-11-20 22:15:20", time(AT, 0)),
            ("2026-11-20T22:15:20.5", time(AT, 500_000_000)),
            ("2026-11-20T22:15:20.123456789Z", time(AT, 123_456_789)),
            ("2026-11-20 22:15:20.1000000000 z", time(AT, 100_000_000)),
            ("2026-11-21T03:45:20+05:30", time(AT, 0)),
            ("2026-11-20 21:15:20 -01:00", time(AT, 0)),
            ("0001-01-01 00:00:00", time(-62_135_596_800, 0)),
        ] {
            assert_eq!(moment(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "now",
            "22:15:20",
            "2026-02-30",
            "2026-11-20 24:00:00",
            "2026-11-20 22",
            "2026-11-20 22:15:20.",
            "2026-11-20 22:15.5",
            "2026-11-20 22:15:20.0000000001",
            "2026-11-20 22:15:20+0530",
            "2026-11-20 22:15:20+05:30Z",
            "0001-01-01 00:00:00+01:00",
            "9999-12-31 23:59:59-01:00",
            "2026-11-20x22:15:20",
            "２０２６-11-20",
            "tomorrow, at noon",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
