//! The delay after which the caller of a refused call sends it again. It grows while the overload lasts.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::broker::error::{Error, OverloadCause};

/// The level changes at most once in this time.
const STEP: Duration = Duration::from_millis(100);
const MIN_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(5);
/// At this level the delay has reached its maximum.
const MAX_LEVEL: u32 = 6;

/// The overload of a broker, as its refused calls show it.
#[derive(Default)]
pub(super) struct Overload(Mutex<Level>);

#[derive(Default)]
struct Level {
    /// Rises with each step in which a call is refused, and falls with each other one.
    level: u32,
    changed: Option<Instant>,
}

impl Overload {
    /// Returns the error for a call that is refused now.
    pub(super) fn refuse(&self, cause: OverloadCause) -> Error {
        let mut level = self.0.lock();
        let level = level.after_refusal(Instant::now());
        // Callers that are refused together must not come back together.
        let delay = MIN_DELAY * 2u32.pow(level);
        let delay = delay.mul_f64(rand::random_range(0.5..1.5));
        Error::Overloaded {
            cause,
            retry_after: delay.min(MAX_DELAY),
        }
    }
}

impl Level {
    fn after_refusal(&mut self, now: Instant) -> u32 {
        let Some(changed) = self.changed else {
            self.changed = Some(now);
            return self.level;
        };
        let steps = now.duration_since(changed).as_millis() / STEP.as_millis();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        if steps > 0 {
            self.changed = Some(now);
            let calm = steps - 1;
            self.level = (self.level + 1)
                .saturating_sub(calm.saturating_mul(2))
                .min(MAX_LEVEL);
        }
        self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_rises_under_overload_and_falls_after_it() {
        let mut level = Level::default();
        let mut now = Instant::now();
        assert_eq!(level.after_refusal(now), 0);
        let mut levels = Vec::new();
        for _ in 0..8 {
            now += STEP;
            levels.push(level.after_refusal(now));
            assert_eq!(
                level.after_refusal(now + STEP / 2),
                levels[levels.len() - 1]
            );
        }
        assert_eq!(levels, [1, 2, 3, 4, 5, 6, 6, 6]);
        assert_eq!(level.after_refusal(now + 3 * STEP), 3);
        assert_eq!(level.after_refusal(now + 60 * STEP), 0);
    }

    #[test]
    fn delay_has_a_maximum() {
        let overload = Overload::default();
        overload.0.lock().level = MAX_LEVEL;
        for _ in 0..100 {
            match overload.refuse(OverloadCause::Delay) {
                Error::Overloaded { retry_after, .. } => {
                    assert!(retry_after <= MAX_DELAY, "{retry_after:?}");
                    assert!(retry_after > Duration::from_secs(3), "{retry_after:?}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
