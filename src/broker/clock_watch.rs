//! Detects steps of the store's clock: it differs by more than a tolerance from the time that has passed for this process.
//!
//! A step forward ends every lease that it passes, although the workers did nothing wrong. The reaper then gives the attempts of
//! these leases back, so that no item dies of the step. After a step back, leases and delays last longer.
//!
//! The tolerance is at most half of the shortest lease in use. A smaller step passes no lease that its worker has extended in
//! time.

use std::time::Duration;

use lease_broker_store::LatestTime;
use tokio::time::Instant;

/// The largest tolerance.
const MAX_TOLERANCE: Duration = Duration::from_secs(30);

/// A time that the store's clock has shown.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The clock was read between these moments.
    start: Instant,
    end: Instant,
    /// Milliseconds since 1970.
    time: i64,
}

/// The store's clock as a reaper has seen it.
#[derive(Debug)]
pub(super) struct ClockWatch {
    /// The largest difference that is no step.
    tolerance: Duration,
    last: Option<Reading>,
    /// True while the leases that a step has ended are not all reaped.
    is_in_step: bool,
}

impl Default for ClockWatch {
    fn default() -> Self {
        Self {
            tolerance: MAX_TOLERANCE,
            last: None,
            is_in_step: false,
        }
    }
}

impl ClockWatch {
    /// Adapts the tolerance to the shortest lease in use.
    pub(super) fn protect(&mut self, shortest_lease: Duration) {
        self.tolerance = MAX_TOLERANCE.min(shortest_lease / 2);
    }

    /// Returns the latest time that the store's clock can show, from `now` on, without a step. `None`: it has not been seen.
    pub(super) fn latest(&self, now: Instant) -> Option<LatestTime> {
        let last = self.last?;
        let passed = now.saturating_duration_since(last.start) + self.tolerance;
        let time = last.time.saturating_add(millis(passed));
        Some(LatestTime::new(time, now))
    }

    /// Takes the time that the store's clock showed between `start` and now. `more_are_due`: the reaper has not ended all leases
    /// that are due.
    ///
    /// Returns the step in milliseconds, negative for a step back, at the first run that sees it. An operation that takes long
    /// is no step.
    pub(super) fn observe(
        &mut self,
        start: Instant,
        now: Instant,
        time: i64,
        more_are_due: bool,
    ) -> Option<i64> {
        let reading = Reading {
            start,
            end: now,
            time,
        };
        let tolerance = millis(self.tolerance);
        let step = self.last.map_or(0, |last| difference(last, reading));
        let step = (step.saturating_abs() > tolerance).then_some(step);
        let is_new = !self.is_in_step;
        self.is_in_step = more_are_due && step.is_some_and(|step| step > 0);
        if !self.is_in_step {
            self.last = Some(reading);
        }
        step.filter(|_| is_new)
    }
}

/// Returns what the clock has shown more than can have passed between two readings, in milliseconds. Negative: it has shown
/// less.
fn difference(last: Reading, reading: Reading) -> i64 {
    let shown = reading.time.saturating_sub(last.time);
    let longest = millis(reading.end.saturating_duration_since(last.start));
    let shortest = millis(reading.start.saturating_duration_since(last.end));
    shown.saturating_sub(shown.clamp(shortest, longest))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn clock_that_runs_is_no_step() {
        let (mut watch, start) = (ClockWatch::default(), Instant::now());
        assert!(watch.latest(start).is_none());
        for second in 0..100 {
            let now = start + second * SECOND;
            let time = 1_000 * i64::from(second);
            assert!(
                watch
                    .latest(now)
                    .is_none_or(|latest| time <= latest.at(now))
            );
            assert_eq!(watch.observe(now, now, time, false), None);
        }
    }

    #[test]
    fn steps_are_reported_once() {
        let (mut watch, start) = (ClockWatch::default(), Instant::now());
        let mut observe = |second: u32, time: i64| {
            let now = start + second * SECOND;
            watch.observe(now, now, time, false)
        };
        assert_eq!(observe(0, 0), None);
        assert_eq!(observe(1, HOUR + 1_000), Some(HOUR));
        assert_eq!(observe(2, HOUR + 2_000), None);
        assert_eq!(observe(3, 3_000), Some(-HOUR));
        assert_eq!(observe(4, 4_000), None);
    }

    #[test]
    fn step_of_half_the_shortest_lease_is_the_largest_that_is_none() {
        for (lease, largest) in [(10, 5_000), (60, 30_000), (3_600, 30_000)] {
            for (time, step) in [(largest, None), (largest + 1, Some(largest + 1))] {
                let (mut watch, start) = (ClockWatch::default(), Instant::now());
                watch.protect(lease * SECOND);
                watch.observe(start, start, 0, false);
                let is_stepped = watch
                    .latest(start)
                    .is_some_and(|latest| time > latest.at(start));
                assert_eq!(is_stepped, step.is_some());
                assert_eq!(watch.observe(start, start, time, false), step);
            }
        }
    }

    #[test]
    fn slow_operation_is_no_step() {
        // The clock is read at the end of one operation and at the start of the next one, or the other way round.
        for [first, second] in [[60_000, 60_000], [0, 120_000]] {
            let (mut watch, start) = (ClockWatch::default(), Instant::now());
            let minute = 60 * SECOND;
            watch.observe(start, start + minute, first, false);
            let step = watch.observe(start + minute, start + 2 * minute, second, false);
            assert_eq!(step, None);
        }
    }

    #[test]
    fn step_lasts_until_all_due_leases_are_reaped() {
        let (mut watch, start) = (ClockWatch::default(), Instant::now());
        watch.observe(start, start, 0, false);
        assert_eq!(watch.observe(start, start, HOUR, true), Some(HOUR));
        for more_are_due in [true, false] {
            assert!(
                watch
                    .latest(start)
                    .is_some_and(|latest| latest.at(start) < HOUR)
            );
            assert_eq!(watch.observe(start, start, HOUR, more_are_due), None);
        }
        assert!(
            watch
                .latest(start)
                .is_some_and(|latest| latest.at(start) > HOUR)
        );
    }
}
