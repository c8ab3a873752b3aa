//! The state machine of an item: states, what ends an attempt, and backoff. Pure: no clock, no I/O.

use std::time::Duration;

/// Where an item stands; stored as the number in `lease_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// May be claimed. The default of rows that other programs insert.
    Ready = 0,
    /// Held by a worker until its due time.
    Leased = 1,
    /// Becomes ready at its due time.
    Delayed = 2,
    /// Done, and kept in the table.
    Completed = 3,
    /// Attempts spent, or failed for good; a redrive makes it ready.
    Dead = 4,
}

impl State {
    /// Every state, by its stored number.
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

    /// Returns the state stored as `code`, if it is one.
    pub fn from_code(code: i64) -> Option<Self> {
        usize::try_from(code)
            .ok()
            .and_then(|code| Self::ALL.get(code).copied())
    }

    /// Returns the state's name, as configuration, the lookup table and listings spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Delayed => "delayed",
            Self::Completed => "completed",
            Self::Dead => "dead",
        }
    }

    /// Returns the state spelled `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// How long a failed item waits before its next attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The wait after the first attempt.
    pub initial: Duration,
    /// What each further attempt multiplies the wait by; at least 1.
    pub factor: f64,
    /// The longest wait.
    pub max: Duration,
    /// The share of the wait that is random, 0 to 1: items that failed together do not return together.
    pub jitter: f64,
}

impl Backoff {
    /// Returns the wait after attempt number `attempt` (1 for the first), where `random` is uniform in 0..1.
    ///
    /// The jitter is taken off the wait, so `max` is never exceeded.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let full =
            (self.initial.as_secs_f64() * self.factor.powi(exponent)).min(self.max.as_secs_f64());
        let kept = 1.0 - self.jitter.clamp(0.0, 1.0) * random.clamp(0.0, 1.0);
        Duration::try_from_secs_f64(full * kept).unwrap_or(self.max)
    }
}

/// What becomes of an item whose attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Another attempt, this much later.
    Retry(Duration),
    /// No further attempt.
    Dead,
}

/// How often an item is tried, and how far apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts before an item is dead; none: it is tried for ever.
    pub max_attempts: Option<u32>,
    /// The waits between attempts.
    pub backoff: Backoff,
}

impl RetryPolicy {
    /// Returns whether an item that has used `attempt` attempts has none left.
    pub fn is_exhausted(&self, attempt: u32) -> bool {
        self.max_attempts.is_some_and(|max| attempt >= max)
    }

    /// Decides what follows a failure of attempt number `attempt`; `asked` is the worker's own wish for the wait.
    pub fn after_failure(
        &self,
        attempt: u32,
        asked: Option<Duration>,
        random: f64,
    ) -> AfterFailure {
        if self.is_exhausted(attempt) {
            AfterFailure::Dead
        } else {
            AfterFailure::Retry(asked.unwrap_or_else(|| self.backoff.delay(attempt, random)))
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
    fn the_wait_doubles_with_each_attempt_up_to_its_maximum() {
        let waits: Vec<u64> = (1..=6).map(|n| BACKOFF.delay(n, 0.0).as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
    }

    #[test]
    fn jitter_only_shortens_the_wait() {
        assert_eq!(BACKOFF.delay(1, 1.0), Duration::from_millis(2_500));
        assert!(BACKOFF.delay(9, 0.3) < BACKOFF.max);
    }

    #[test]
    fn no_attempt_number_overflows_the_wait() {
        assert_eq!(BACKOFF.delay(u32::MAX, 0.0), BACKOFF.max);
        assert_eq!(BACKOFF.delay(0, 0.0), BACKOFF.initial);
    }

    #[test]
    fn an_item_is_dead_when_its_last_attempt_failed_and_never_without_a_maximum() {
        let mut policy = RetryPolicy {
            max_attempts: Some(3),
            backoff: BACKOFF,
        };
        let asked = Some(Duration::from_secs(1));
        assert_eq!(
            policy.after_failure(2, asked, 0.0),
            AfterFailure::Retry(Duration::from_secs(1))
        );
        assert_eq!(policy.after_failure(3, asked, 0.0), AfterFailure::Dead);
        policy.max_attempts = None;
        assert_eq!(
            policy.after_failure(1_000, None, 0.0),
            AfterFailure::Retry(BACKOFF.max)
        );
    }

    #[test]
    fn every_state_is_found_again_by_its_number_and_by_its_name() {
        for state in State::ALL {
            assert_eq!(State::from_code(state.code().into()), Some(state));
            assert_eq!(State::from_name(state.name()), Some(state));
        }
        assert_eq!(State::from_code(5), None);
        assert_eq!(State::from_code(-1), None);
    }
}
