//! The times at which an open loop's claims are due, whatever the service is doing: a claim that can't be sent in time is
//! late, and its lateness is part of its latency.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::load::Load;

/// A claim sent later than this after it was due was kept from it by the one before.
const LATE: Duration = Duration::from_millis(2);

/// One worker's timetable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    due: Instant,
    every: Duration,
}

/// What all workers together made of their timetables.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    due: AtomicU64,
    late: AtomicU64,
}

impl Pace {
    /// Starts a worker's timetable, by which all workers together claim `rate` items a second.
    #[expect(clippy::cast_precision_loss, reason = "workers and batches are few")]
    pub(super) fn new(start: Instant, rate: f64, load: &Load, worker: usize) -> Self {
        let every = Duration::from_secs_f64((load.workers * load.batch) as f64 / rate);
        let offset = every.mul_f64(worker as f64 / load.workers as f64);
        Self {
            due: start + offset,
            every,
        }
    }

    /// Waits until the next claim is due; returns when that was.
    pub(super) async fn next(&mut self, lateness: &Lateness) -> Instant {
        let due = self.due;
        tokio::time::sleep_until(due).await;
        self.due += self.every;
        lateness.due.fetch_add(1, Ordering::Relaxed);
        if due.elapsed() > LATE {
            lateness.late.fetch_add(1, Ordering::Relaxed);
        }
        due
    }
}

impl Lateness {
    /// Returns how many claims were sent, and how many of them late.
    pub(super) fn counts(&self) -> [u64; 2] {
        [&self.due, &self.late].map(|count| count.load(Ordering::Relaxed))
    }
}
