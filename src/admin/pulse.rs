//! The pulse of the main runtime: shows that its tasks still run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval between two beats.
const INTERVAL: Duration = Duration::from_secs(1);
/// The runtime counts as stalled if the last beat is older than this.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// The time of the last beat of a task that beats once per second.
#[derive(Debug)]
pub struct Pulse {
    start: Instant,
    /// Milliseconds from `start` to the last beat.
    last_beat: AtomicU64,
}

impl Pulse {
    /// Starts a task that beats as long as the current runtime runs tasks.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start() -> Arc<Self> {
        let pulse = Arc::new(Self {
            start: Instant::now(),
            last_beat: AtomicU64::new(0),
        });
        let beating = Arc::downgrade(&pulse);
        tokio::spawn(async move {
            while let Some(pulse) = beating.upgrade() {
                pulse.beat(Instant::now());
                drop(pulse);
                tokio::time::sleep(INTERVAL).await;
            }
        });
        pulse
    }

    fn beat(&self, now: Instant) {
        let since_start = now.duration_since(self.start).as_millis();
        let since_start = u64::try_from(since_start).unwrap_or(u64::MAX);
        self.last_beat.store(since_start, Ordering::Relaxed);
    }

    /// Returns the age of the last beat if it is more than 10 s. `None`: the runtime runs its tasks.
    pub(super) fn stalled_for(&self, now: Instant) -> Option<Duration> {
        let last_beat = Duration::from_millis(self.last_beat.load(Ordering::Relaxed));
        let age = now.duration_since(self.start).saturating_sub(last_beat);
        (age > STALLED_AFTER).then_some(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_when_no_beat_comes_for_ten_seconds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let pulse = Pulse {
            start,
            last_beat: AtomicU64::new(0),
        };
        assert_eq!(pulse.stalled_for(at(10)), None);
        assert_eq!(pulse.stalled_for(at(11)), Some(Duration::from_secs(11)));
        pulse.beat(at(11));
        assert_eq!(pulse.stalled_for(at(21)), None);
        assert_eq!(pulse.stalled_for(at(22)), Some(Duration::from_secs(11)));
    }
}
