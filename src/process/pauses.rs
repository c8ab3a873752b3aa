//! Notices that the whole process was stopped for a while: by SIGSTOP, a frozen control group, a paused machine, or swapping.
//! Leases go on meanwhile, and other brokers end those that expire.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time for which the thread sleeps.
const INTERVAL: Duration = Duration::from_millis(100);
/// The shortest pause. A pause can begin anywhere in a sleep, so a sleep that lasts as long is one.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// Counts the pauses of this process. A thread of its own watches them until this is dropped, so that a busy runtime is no pause.
#[derive(Debug, Default)]
pub struct Pauses(AtomicU64);

impl Pauses {
    /// Starts the watch.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn watch() -> io::Result<Arc<Self>> {
        let pauses = Arc::<Self>::default();
        let counting = Arc::downgrade(&pauses);
        let watch = move || {
            while let Some(pauses) = counting.upgrade() {
                let start = Instant::now();
                drop(pauses);
                std::thread::sleep(INTERVAL);
                if let Some(pauses) = counting.upgrade() {
                    pauses.observe(start.elapsed());
                }
            }
        };
        let thread = std::thread::Builder::new().name("pauses".to_owned());
        thread.spawn(watch)?;
        Ok(pauses)
    }

    /// Returns the number of pauses since the watch began.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes the time that a sleep of [`INTERVAL`] has lasted.
    fn observe(&self, slept: Duration) {
        if slept >= MIN_PAUSE {
            self.0.fetch_add(1, Ordering::Relaxed);
            let pause = slept.saturating_sub(INTERVAL / 2);
            let seconds = format!("{:.1}", pause.as_secs_f64());
            tracing::warn!(%seconds, "the process was stopped; leases went on meanwhile");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_that_lasts_a_second_is_a_pause() {
        let pauses = Pauses::default();
        pauses.observe(Duration::from_millis(999));
        assert_eq!(pauses.count(), 0);
        pauses.observe(MIN_PAUSE);
        assert_eq!(pauses.count(), 1);
    }
}
