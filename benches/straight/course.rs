//! The course of a run: when it is measured, and what a worker has done in it.

use std::time::{Duration, Instant};

use crate::arguments::Arguments;

/// When a run is measured, and when it ends.
#[derive(Clone, Copy)]
pub(crate) struct Course {
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
}

impl Course {
    pub(crate) fn from_now(arguments: &Arguments) -> Self {
        let begin = Instant::now() + arguments.warm_up;
        Self {
            begin,
            end: begin + arguments.time,
        }
    }

    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.end
    }

    pub(crate) fn is_measured(self) -> bool {
        (self.begin..self.end).contains(&Instant::now())
    }

    pub(crate) fn time(self) -> Duration {
        self.end - self.begin
    }
}

/// What workers have done.
#[derive(Default)]
pub(crate) struct Worked {
    /// Every item that was settled, whenever that was.
    pub(crate) keys: Vec<i64>,
    /// Those settled while it was measured.
    pub(crate) measured: u64,
    /// Tries that gave no item, or one that somebody else has settled, while it was measured.
    pub(crate) wasted: u64,
}

impl Worked {
    pub(crate) fn settled(&mut self, key: i64, course: Course) {
        self.keys.push(key);
        self.measured += u64::from(course.is_measured());
    }

    pub(crate) fn nothing(&mut self, course: Course) {
        self.wasted += u64::from(course.is_measured());
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.measured += other.measured;
        self.wasted += other.wasted;
    }
}
