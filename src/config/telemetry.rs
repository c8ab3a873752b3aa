//! The section `telemetry` of the configuration.

use std::time::Duration;

use serde::Deserialize;

use super::duration;
use super::error::InvalidSetting;
use super::range::{DAY, MILLISECOND, check_duration};

/// Settings of the metrics.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// The interval at which the statistics of each queue are read. 100 ms to 1 day.
    #[serde(with = "duration")]
    pub stats_interval: Duration,
}

impl Telemetry {
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let min = 100 * MILLISECOND;
        check_duration("telemetry.stats_interval", self.stats_interval, min, DAY)
    }
}
