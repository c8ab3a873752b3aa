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
        return Ok(SystemTime::from(moment).into());
    }
    let duration = humantime::parse_duration(text).map_err(|_| {
        "must be a duration such as 2h, or a moment such as 2026-11-20T22:15:20Z".to_owned()
    })?;
    let moment = from_now(&SystemTime::now(), duration).filter(|moment| *moment >= UNIX_EPOCH);
    let moment = moment.ok_or_else(|| "is too far away".to_owned())?;
    Ok(moment.into())
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
        let early = parse_past("1969-12-31T23:59:59.5Z").expect("a moment");
        assert_eq!((early.seconds, early.nanos), (-1, 500_000_000));
        let past = parse_past("2h").expect("a moment");
        let future = parse_future("2h").expect("a moment");
        let apart = future.seconds - past.seconds;
        assert!((14_400..14_460).contains(&apart), "{apart}");
        for wrong in ["", "soon", "2026-11-20", "200y", "99999999999y"] {
            assert!(parse_past(wrong).is_err(), "{wrong}");
        }
    }
}
