//! Points in time as SQLite's date functions write them, and as they read numbers (<https://sqlite.org/lang_datefunc.html>).
//! `time_text.rs` reads texts.

use lease_broker_value::Value;
use time::{Duration, OffsetDateTime, macros::format_description};

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
