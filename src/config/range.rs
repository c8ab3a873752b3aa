//! Range checks of settings.

use std::time::Duration;

use super::error::InvalidSetting;

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const DAY: Duration = Duration::from_secs(86_400);
/// The shortest `telemetry.metrics_interval` and `telemetry.stats_interval`.
pub(super) const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// The largest `telemetry.queue_size` and `telemetry.batch_size`.
pub(super) const MAX_SPANS: usize = 1_000_000;

/// Refuses a number that is not between 1 and `max`.
pub(super) fn check_count(
    key: impl Into<String>,
    value: usize,
    max: usize,
) -> Result<(), InvalidSetting> {
    check_between(key, value, 1, max)
}

/// Refuses a number that is not between `min` and `max`.
pub(super) fn check_between(
    key: impl Into<String>,
    value: usize,
    min: usize,
    max: usize,
) -> Result<(), InvalidSetting> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(InvalidSetting::out_of_range(key, value, min, max))
    }
}

/// Writes a duration as the configuration does: many days are not turned into years and months.
pub(crate) fn duration_text(duration: Duration) -> String {
    let days = duration.as_secs() / DAY.as_secs();
    if days < 2 {
        return humantime::format_duration(duration).to_string();
    }
    let rest = Duration::new(duration.as_secs() % DAY.as_secs(), duration.subsec_nanos());
    if rest.is_zero() {
        format!("{days}days")
    } else {
        format!("{days}days {}", humantime::format_duration(rest))
    }
}

/// Refuses a duration that is not between `min` and `max`.
pub(super) fn check_duration(
    key: impl Into<String>,
    value: Duration,
    min: Duration,
    max: Duration,
) -> Result<(), InvalidSetting> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let [value, min, max] = [value, min, max].map(duration_text);
    Err(InvalidSetting::out_of_range(key, value, min, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_duration_is_written_in_days() {
        assert_eq!(duration_text(MINUTE + MILLISECOND), "1m 1ms");
        assert_eq!(duration_text(DAY), "1day");
        assert_eq!(duration_text(366 * DAY), "366days");
        assert_eq!(duration_text(400 * DAY + MINUTE), "400days 1m");
        for duration in [Duration::MAX, 366 * DAY + MILLISECOND] {
            let parsed = humantime::parse_duration(&duration_text(duration));
            assert_eq!(parsed, Ok(duration));
        }
    }
}
