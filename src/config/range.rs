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
fn shown(duration: Duration) -> String {
    let days = duration.as_secs() / DAY.as_secs();
    if days > 1 && duration == DAY * u32::try_from(days).unwrap_or(0) {
        format!("{days}days")
    } else {
        humantime::format_duration(duration).to_string()
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
    let [value, min, max] = [value, min, max].map(shown);
    Err(InvalidSetting::out_of_range(key, value, min, max))
}
