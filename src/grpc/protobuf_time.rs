//! Points in time and durations as messages of protobuf.

use std::time::Duration;

/// The range of a timestamp: the years 1 to 9999.
const MIN_MILLIS: i64 = -62_135_596_800_000;
const MAX_MILLIS: i64 = 253_402_300_799_999;

/// Checks the parts of a time. Returns the problem, without the field.
pub(super) fn check_timestamp(seconds: i64, nanos: i32) -> Result<(), &'static str> {
    if !(0..1_000_000_000).contains(&nanos) {
        return Err("nanos must be 0 to 999,999,999");
    }
    if !(MIN_MILLIS / 1_000..=MAX_MILLIS / 1_000).contains(&seconds) {
        return Err("is outside the years 0001 to 9999");
    }
    Ok(())
}

/// Converts milliseconds since 1970-01-01T00:00:00Z. A time that another program stored can be outside of the range of the message.
/// It becomes the nearest one.
pub(super) fn timestamp(millis: i64) -> prost_types::Timestamp {
    let millis = millis.clamp(MIN_MILLIS, MAX_MILLIS);
    prost_types::Timestamp {
        seconds: millis.div_euclid(1_000),
        nanos: i32::try_from(millis.rem_euclid(1_000) * 1_000_000).unwrap_or(0),
    }
}

/// Converts a time to whole milliseconds since 1970-01-01T00:00:00Z. One that is out of their range becomes the nearest.
pub(crate) fn millis(time: &prost_types::Timestamp) -> i64 {
    let seconds = time.seconds.saturating_mul(1_000);
    seconds.saturating_add(i64::from(time.nanos / 1_000_000))
}

/// Does the same as [`millis`], and rounds up. Times are stored in whole milliseconds, so this moment divides them as `time` does: into
/// those before it, and those at it or later.
pub(super) fn millis_rounded_up(time: &prost_types::Timestamp) -> i64 {
    let has_rest = time.nanos % 1_000_000 != 0;
    (millis(time) + i64::from(has_rest)).min(MAX_MILLIS)
}

/// Converts a duration.
pub(crate) fn duration_to_proto(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outside_of_the_range_becomes_the_nearest() {
        let seconds = |millis| timestamp(millis).seconds;
        assert_eq!(seconds(i64::MAX), 253_402_300_799);
        assert_eq!(seconds(253_402_300_800_000), 253_402_300_799);
        assert_eq!(seconds(i64::MIN), -62_135_596_800);
        assert_eq!(seconds(1_500), 1);
        assert_eq!(millis(&timestamp(-1_500)), -1_500);
    }

    #[test]
    fn part_of_a_millisecond_is_rounded_up() {
        let rounded =
            |seconds, nanos| millis_rounded_up(&prost_types::Timestamp { seconds, nanos });
        assert_eq!(rounded(86, 314_000_000), 86_314);
        assert_eq!(rounded(86, 314_000_001), 86_315);
        assert_eq!(rounded(-2, 500_000_001), -1_499);
        assert_eq!(rounded(253_402_300_799, 999_999_999), MAX_MILLIS);
    }
}
