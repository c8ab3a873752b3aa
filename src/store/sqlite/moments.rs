//! Points in time as SQLite's date functions read and write them (<https://sqlite.org/lang_datefunc.html>).

use lease_broker_value::Value;
use time::{Date, Duration, Month, OffsetDateTime, Time, macros::format_description};

/// The first and the last second that a number stands for, in seconds since 1970. SQLite's modifier `auto` has these bounds
/// too, but a lower first one, which is before the year 1.
const SECONDS: std::ops::RangeInclusive<f64> = -62_135_596_800.0..=253_402_300_799.0;
/// The end of the Julian days, in days. A smaller positive number is a Julian day, as for SQLite's modifier `auto`.
const JULIAN_DAYS_END: f64 = 5_373_484.5;
/// The Julian day of 1970-01-01T00:00:00Z, in milliseconds.
const JULIAN_MILLIS_OF_1970: f64 = 210_866_760_000_000.0;
const MILLIS_PER_DAY: f64 = 86_400_000.0;

/// Formats a time as SQLite's date functions read it, with as many decimals as needed. Returns `None` for a time
/// outside the years 1 to 9999.
pub(super) fn text_of(seconds: i64, nanos: i32) -> Option<String> {
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

/// Parses a time such as `2026-11-20 22:15:20.5`, `2026-11-20T22:15Z` or `2026-11-20T22:15:20+05:30`. A date without a time is
/// midnight. Returns `None` for other texts, and for a time that has parts of nanoseconds.
pub(super) fn of_text(text: &str) -> Option<Value> {
    let (date, rest) = text.split_at_checked(10)?;
    let date = parse_date(date)?;
    let (time, offset) = match rest.strip_prefix(['T', ' ']) {
        None if rest.is_empty() => (Time::MIDNIGHT, Duration::ZERO),
        None => return None,
        Some(rest) => {
            let end = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
            let (time, zone) = rest.split_at(end);
            (parse_time(time.trim_end_matches(' '))?, parse_offset(zone)?)
        }
    };
    let moment = date
        .with_time(time)
        .assume_utc()
        .checked_sub(offset)
        .filter(|moment| moment.year() >= 1)?;
    Some(Value::Timestamp {
        seconds: moment.unix_timestamp(),
        nanos: i32::try_from(moment.nanosecond()).ok()?,
    })
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
fn parse_offset(text: &str) -> Option<Duration> {
    if matches!(text, "" | "Z" | "z") {
        return Some(Duration::ZERO);
    }
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    // SQLite's bounds.
    if hours > 14 || minutes > 59 {
        return None;
    }
    let offset = Duration::minutes(i64::from(hours * 60 + minutes));
    Some(if text.starts_with('-') {
        -offset
    } else {
        offset
    })
}

/// Parses a number that has exactly this many digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Returns the time that an integer stands for: a Julian day, or seconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "larger numbers are no times")]
pub(super) fn of_integer(int: i64) -> Option<Value> {
    if (0.0..JULIAN_DAYS_END).contains(&(int as f64)) {
        return of_double(int as f64);
    }
    SECONDS.contains(&(int as f64)).then_some(Value::Timestamp {
        seconds: int,
        nanos: 0,
    })
}

/// Returns the time that a floating-point number stands for: a Julian day, or seconds since 1970. SQLite reads both in whole
/// milliseconds. `None`: a time in milliseconds would not be the same number.
#[expect(clippy::cast_possible_truncation, reason = "the bounds are checked")]
#[expect(clippy::float_cmp, reason = "an equal number is the same time")]
pub(super) fn of_double(double: f64) -> Option<Value> {
    let (millis, same) = if (0.0..JULIAN_DAYS_END).contains(&double) {
        let millis = (double * MILLIS_PER_DAY).round();
        (millis - JULIAN_MILLIS_OF_1970, millis / MILLIS_PER_DAY)
    } else {
        let millis = (double * 1_000.0).round();
        (millis, millis / 1_000.0)
    };
    if same != double || !SECONDS.contains(&(millis / 1_000.0)) {
        return None;
    }
    let millis = millis as i64;
    Some(Value::Timestamp {
        seconds: millis.div_euclid(1_000),
        nanos: i32::try_from(millis.rem_euclid(1_000) * 1_000_000).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T22:15:20Z.
    const AT: i64 = 1_795_212_920;

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
            assert_eq!(of_text(text), Some(expected), "{text}");
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
            "2026-11-20x22:15:20",
            "２０２６-11-20",
            "tomorrow, at noon",
        ] {
            assert_eq!(of_text(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_julian_days_or_seconds() {
        assert_eq!(of_integer(AT), Some(time(AT, 0)));
        assert_eq!(of_integer(-1), Some(time(-1, 0)));
        assert_eq!(of_integer(2_440_588), Some(time(43_200, 0)));
        assert_eq!(of_double(2_440_587.5), Some(time(0, 0)));
        assert_eq!(of_double(1.5e9), Some(time(1_500_000_000, 0)));
        assert_eq!(of_double(1_795_212_920.123), Some(time(AT, 123_000_000)));
        // Milliseconds since 1970, a Julian day before the year 1, and parts of milliseconds.
        for number in [1_795_212_920_123_i64, 0, 1_000_000] {
            assert_eq!(of_integer(number), None, "{number}");
        }
        for number in [1_795_212_920.123_4, f64::NAN, f64::INFINITY, -1e300] {
            assert_eq!(of_double(number), None, "{number}");
        }
    }
}
