//! Moments on the command line: RFC 3339, or a duration before or after now.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost_types::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Parses a moment in the past: RFC 3339, or the time that has passed since then, such as `7d`.
pub(super) fn parse_past(text: &str) -> Result<Timestamp, String> {
    parse(text, SystemTime::checked_sub)
}

/// Parses a moment in the future: RFC 3339, or the time until then, such as `2h`.
pub(super) fn parse_future(text: &str) -> Result<Timestamp, String> {
    parse(text, SystemTime::checked_add)
}

fn parse(
    text: &str,
    from_now: fn(&SystemTime, Duration) -> Option<SystemTime>,
) -> Result<Timestamp, String> {
    if let Ok(moment) = OffsetDateTime::parse(text, &Rfc3339) {
        return Ok(Timestamp {
            seconds: moment.unix_timestamp(),
            nanos: i32::try_from(moment.nanosecond()).unwrap_or(0),
        });
    }
    let duration = humantime::parse_duration(text).map_err(|_| {
        "must be a duration such as 2h, or a moment such as 2026-11-20T22:15:20Z".to_owned()
    })?;
    let moment = from_now(&SystemTime::now(), duration);
    let since = moment.and_then(|moment| moment.duration_since(UNIX_EPOCH).ok());
    let since = since.ok_or_else(|| "is too far away".to_owned())?;
    Ok(Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    })
}

/// Returns the time that has passed since a moment, by the clock of this host. Zero: the moment is in the future.
pub(super) fn age(moment: &Timestamp) -> Duration {
    let since = Duration::new(
        u64::try_from(moment.seconds).unwrap_or(0),
        u32::try_from(moment.nanos).unwrap_or(0),
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().saturating_sub(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_absolute_or_relative() {
        let absolute = parse_past("2026-11-20T22:15:20.5+01:00").expect("a moment");
        assert_eq!(
            (absolute.seconds, absolute.nanos),
            (1_795_209_320, 500_000_000)
        );
        let past = parse_past("2h").expect("a moment");
        let future = parse_future("2h").expect("a moment");
        let apart = future.seconds - past.seconds;
        assert!((14_400..14_460).contains(&apart), "{apart}");
        for wrong in ["", "soon", "2026-11-20", "99999999999y"] {
            assert!(parse_past(wrong).is_err(), "{wrong}");
        }
    }
}
