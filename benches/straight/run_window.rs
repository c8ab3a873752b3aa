//! The time window in which a run is measured, and a worker's counts.

use std::time::{Duration, Instant};

use crate::arguments::Arguments;

/// The measured time of a run, after its warm-up. The run ends with it.
#[derive(Clone, Copy)]
pub(crate) struct RunWindow {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

impl RunWindow {
    pub(crate) fn from_now(arguments: &Arguments) -> Self {
        let start = Instant::now() + arguments.warm_up;
        Self {
            start,
            end: start + arguments.time,
        }
    }

    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.end
    }

    pub(crate) fn is_measured(self) -> bool {
        (self.start..self.end).contains(&Instant::now())
    }

    pub(crate) fn duration(self) -> Duration {
        self.end - self.start
    }
}

/// The items and tries of workers.
#[derive(Default)]
pub(crate) struct WorkerCounts {
    /// Keys of all settled items, of the warm-up too.
    pub(crate) keys: Vec<i64>,
    /// Number of items settled in the window.
    pub(crate) measured: u64,
    /// Number of tries in the window that returned no item, or one that another worker has settled.
    pub(crate) wasted: u64,
}

impl WorkerCounts {
    pub(crate) fn record_settled(&mut self, key: i64, window: RunWindow) {
        self.keys.push(key);
        self.measured += u64::from(window.is_measured());
    }

    pub(crate) fn record_wasted(&mut self, window: RunWindow) {
        self.wasted += u64::from(window.is_measured());
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.measured += other.measured;
        self.wasted += other.wasted;
    }
}
