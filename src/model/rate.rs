//! A rate: how many items a queue may give out in a time.
//!
//! The rule is the generic cell rate algorithm. Its state is one number, the *theoretical arrival time*: the time at which all tokens
//! are back. Taking items moves it into the future by the time that their tokens need. So any number of brokers can share it as one
//! column of one row.

use std::time::Duration;

/// Items per time. In any `w` seconds at most `burst` + `w` × `items` / `per` items are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The number of items, 1 to 1,000,000.
    pub items: u32,
    /// The time in which so many items are given out, 1 ms to 1 day.
    pub per: Duration,
    /// The number of items that can be given out at once after a quiet time, 1 to 1,000,000.
    pub burst: u32,
}

impl Rate {
    /// The largest number of items, and the largest burst.
    pub const MAX_ITEMS: u32 = 1_000_000;
    /// The shortest and the longest time of a rate.
    pub const PER: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(86_400)];

    /// The time that is added to the longest possible wait if the stored time is further in the future, in microseconds. Only a clock
    /// that was stepped back can make it so.
    pub const CLOCK_STEP: i64 = 1_000_000;

    /// Returns the time of a rate in microseconds.
    pub fn per_micros(&self) -> i64 {
        i64::try_from(self.per.as_micros()).unwrap_or(i64::MAX)
    }

    /// Returns the time that the tokens of `count` items need, in microseconds, rounded up.
    fn time_of(&self, count: i64) -> i64 {
        let items = i64::from(self.items);
        count
            .saturating_mul(self.per_micros())
            .saturating_add(items - 1)
            / items
    }

    /// Returns the latest theoretical arrival time that there can be now: a full burst and [`Self::CLOCK_STEP`] in the future. A stored
    /// time that is later is from before the clock stepped back. It must be stored anew as this one: it would stop the rate until the
    /// clock has come back to it. Times are in microseconds.
    pub fn latest(&self, now: i64) -> i64 {
        now.saturating_add(self.time_of(i64::from(self.burst)))
            .saturating_add(Self::CLOCK_STEP)
    }

    /// Returns the theoretical arrival time as it counts now: not in the past, and not after the latest. `None`: nothing was given out
    /// yet. Times are in microseconds.
    fn present(&self, arrival: Option<i64>, now: i64) -> i64 {
        arrival.unwrap_or(now).clamp(now, self.latest(now))
    }

    /// Returns the number of items that can be given out now.
    pub fn tokens(&self, arrival: Option<i64>, now: i64) -> u32 {
        let ahead = self.present(arrival, now) - now;
        // Whole microseconds times items: at most burst × per, which is below 2^57.
        let used = ahead
            .saturating_mul(i64::from(self.items))
            .saturating_add(self.per_micros() - 1)
            / self.per_micros();
        let left = i64::from(self.burst) - used;
        u32::try_from(left.max(0)).unwrap_or(u32::MAX)
    }

    /// Returns the theoretical arrival time after `count` items were given out.
    pub fn after(&self, arrival: Option<i64>, now: i64, count: usize) -> i64 {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.present(arrival, now)
            .saturating_add(self.time_of(count))
    }

    /// Returns the time until an item can be given out. Zero: one can be now.
    pub fn wait(&self, arrival: Option<i64>, now: i64) -> Duration {
        if self.tokens(arrival, now) > 0 {
            return Duration::ZERO;
        }
        // The longest time ahead at which a token is free. It is rounded down, unlike the times that are added up.
        let free = (i64::from(self.burst) - 1) * self.per_micros() / i64::from(self.items);
        let wait = self.present(arrival, now) - now - free;
        Duration::from_micros(wait.max(1).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(items: u32, per: Duration, burst: u32) -> Rate {
        Rate { items, per, burst }
    }

    #[test]
    fn a_burst_is_given_at_once_and_then_the_rate() {
        let rate = rate(10, Duration::from_secs(1), 3);
        assert_eq!(rate.tokens(None, 5_000_000), 3);
        let arrival = Some(rate.after(None, 5_000_000, 3));
        assert_eq!(rate.tokens(arrival, 5_000_000), 0);
        assert_eq!(rate.wait(arrival, 5_000_000), Duration::from_millis(100));
        assert_eq!(rate.tokens(arrival, 5_099_999), 0);
        assert_eq!(rate.tokens(arrival, 5_100_000), 1);
        assert_eq!(rate.tokens(arrival, 9_000_000), 3);
    }

    #[test]
    fn clock_that_steps_back_stops_a_rate_only_for_a_moment() {
        let rate = rate(2, Duration::from_secs(1), 4);
        let arrival = rate.after(None, 7_200_000_000, 4);
        let wait = rate.wait(Some(arrival), 0);
        assert_eq!(wait, Duration::from_millis(1_500));
        let arrival = Some(arrival.min(rate.latest(0)));
        assert_eq!(rate.tokens(arrival, 1_499_999), 0);
        assert_eq!(rate.tokens(arrival, 1_500_000), 1);
    }

    proptest! {
        #[test]
        fn no_window_has_more_than_burst_and_rate(
            items in 1_u32..2_000,
            per in 1_u64..100_000,
            burst in 1_u32..500,
            steps in prop::collection::vec((0_i64..200_000, 0_u32..400), 1..60),
        ) {
            let rate = rate(items, Duration::from_millis(per), burst);
            let (mut now, mut arrival) = (1_000_000_000_i64, None);
            let mut given: Vec<(i64, u32)> = Vec::new();
            for (pause, wanted) in steps {
                now += pause;
                let count = wanted.min(rate.tokens(arrival, now));
                if count > 0 {
                    arrival = Some(rate.after(arrival, now, count as usize));
                    given.push((now, count));
                } else {
                    // After the wait there is a token, and not much sooner.
                    let wait = i64::try_from(rate.wait(arrival, now).as_micros()).unwrap();
                    prop_assert!(rate.tokens(arrival, now + wait) > 0);
                    prop_assert!(wait <= 2 || rate.tokens(arrival, now + wait - 2) == 0);
                }
            }
            for (first, (start, _)) in given.iter().enumerate() {
                let mut sum = 0_u64;
                for (end, count) in &given[first..] {
                    sum += u64::from(*count);
                    let window = (end - start).cast_unsigned();
                    let bound = u64::from(burst) + window * u64::from(items) / (per * 1_000);
                    prop_assert!(sum <= bound, "{sum} in {window} µs, bound {bound}");
                }
            }
        }
    }
}
