//! The states of an item, and the rules for its retries: maximum attempts and backoff.
//!
//! All functions are pure. They read no clock and make no random numbers. The caller passes both.

use std::time::Duration;

/// The state of an item. The column `lease_state` stores it as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// A worker can claim the item. Rows that other programs insert are in this state by default.
    Ready = 0,
    /// A worker holds a lease on the item until the due time.
    Leased = 1,
    /// The item becomes ready at its due time.
    Delayed = 2,
    /// A worker completed the item, and the queue keeps its row.
    Completed = 3,
    /// No attempts are left, or a worker failed the item without a retry. A redrive makes it ready.
    Dead = 4,
}

impl State {
    /// All states, in the order of their stored numbers.
    pub const ALL: [Self; 5] = [
        Self::Ready,
        Self::Leased,
        Self::Delayed,
        Self::Completed,
        Self::Dead,
    ];

    /// Returns the number stored in `lease_state`.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the state with the stored number `code`, or `None` if the number is unknown.
    pub fn from_code(code: i64) -> Option<Self> {
        usize::try_from(code)
            .ok()
            .and_then(|code| Self::ALL.get(code).copied())
    }

    /// Returns the state's name, as it is written in the configuration, the database's lookup table and listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Delayed => "delayed",
            Self::Completed => "completed",
            Self::Dead => "dead",
        }
    }

    /// Returns the state with this name, or `None` if the name is unknown.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// The delay between a failed attempt and the next one. It grows by a factor with each attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The delay after the first attempt.
    pub initial: Duration,
    /// The factor by which the delay grows with each further attempt. 1 to 1,000.
    pub factor: f64,
    /// The longest delay.
    pub max: Duration,
    /// The random part of the delay, 0 to 1. It spreads the retries of items that failed at the same time.
    pub jitter: f64,
}

impl Backoff {
    /// Returns the delay after attempt number `attempt`, which is 1 for the first. `random` is uniform in 0..1.
    ///
    /// The jitter shortens the delay, so the delay never exceeds `max`.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let without_jitter =
            (self.initial.as_secs_f64() * self.factor.powi(exponent)).min(self.max.as_secs_f64());
        let factor = 1.0 - self.jitter.clamp(0.0, 1.0) * random.clamp(0.0, 1.0);
        Duration::try_from_secs_f64(without_jitter * factor).unwrap_or(self.max)
    }
}

/// The next step for an item whose attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Try again after this delay.
    Retry(Duration),
    /// Make the item dead.
    Dead,
}

/// The retry rules of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The number of attempts after which an item is dead. `None`: no limit.
    pub max_attempts: Option<u32>,
    /// The delays between attempts.
    pub backoff: Backoff,
}

impl RetryPolicy {
    /// Returns whether attempt number `attempt` was the last one.
    pub fn is_exhausted(&self, attempt: u32) -> bool {
        self.max_attempts.is_some_and(|max| attempt >= max)
    }

    /// Returns the next step after a failure of attempt number `attempt`.
    ///
    /// `retry_delay` is the delay that the worker asked for. It replaces the backoff. `random` is uniform in 0..1.
    pub fn after_failure(
        &self,
        attempt: u32,
        retry_delay: Option<Duration>,
        random: f64,
    ) -> AfterFailure {
        if self.is_exhausted(attempt) {
            AfterFailure::Dead
        } else {
            AfterFailure::Retry(retry_delay.unwrap_or_else(|| self.backoff.delay(attempt, random)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        initial: Duration::from_secs(5),
        factor: 2.0,
        max: Duration::from_secs(60),
        jitter: 0.5,
    };

    #[test]
    fn delay_doubles_up_to_the_maximum() {
        let delays: Vec<u64> = (1..=6).map(|n| BACKOFF.delay(n, 0.0).as_secs()).collect();
        assert_eq!(delays, [5, 10, 20, 40, 60, 60]);
    }

    #[test]
    fn jitter_only_shortens_the_delay() {
        assert_eq!(BACKOFF.delay(1, 1.0), Duration::from_millis(2_500));
        assert!(BACKOFF.delay(9, 0.3) < BACKOFF.max);
    }

    #[test]
    fn extreme_attempt_numbers_do_not_overflow() {
        assert_eq!(BACKOFF.delay(u32::MAX, 0.0), BACKOFF.max);
        assert_eq!(BACKOFF.delay(0, 0.0), BACKOFF.initial);
    }

    #[test]
    fn item_is_dead_after_its_last_attempt_if_there_is_a_maximum() {
        let mut policy = RetryPolicy {
            max_attempts: Some(3),
            backoff: BACKOFF,
        };
        let retry_delay = Some(Duration::from_secs(1));
        assert_eq!(
            policy.after_failure(2, retry_delay, 0.0),
            AfterFailure::Retry(Duration::from_secs(1))
        );
        assert_eq!(
            policy.after_failure(3, retry_delay, 0.0),
            AfterFailure::Dead
        );
        policy.max_attempts = None;
        assert_eq!(
            policy.after_failure(1_000, None, 0.0),
            AfterFailure::Retry(BACKOFF.max)
        );
    }

    #[test]
    fn states_are_found_by_number_and_by_name() {
        for state in State::ALL {
            assert_eq!(State::from_code(state.code().into()), Some(state));
            assert_eq!(State::from_name(state.name()), Some(state));
        }
        assert_eq!(State::from_code(5), None);
        assert_eq!(State::from_code(-1), None);
    }
}
