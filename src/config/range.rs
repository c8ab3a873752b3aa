//! Range checks of settings.

use std::time::Duration;

use super::error::InvalidSetting;

/// Refuses a number that is not between 1 and `max`.
pub(super) fn check_count(key: &str, value: usize, max: usize) -> Result<(), InvalidSetting> {
    if (1..=max).contains(&value) {
        Ok(())
    } else {
        Err(InvalidSetting::out_of_range(key, value, 1, max))
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
    let [value, min, max] = [value, min, max].map(humantime::format_duration);
    Err(InvalidSetting::out_of_range(key, value, min, max))
}
