//! What a run measured between two moments.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::course::Course;
use super::latency::{Rpc, Summary};
use super::ledger::{Balance, Tally};
use super::minutes::Minute;
use super::usage::{Memory, Pid, store_bytes};

/// What is watched besides the calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// The broker's process.
    pub(super) broker: Option<Pid>,
    /// The store's file.
    pub(super) file: Option<PathBuf>,
}

impl Watch {
    pub(super) fn store_bytes(&self) -> Option<u64> {
        self.file.as_deref().and_then(store_bytes)
    }

    pub(super) fn memory(&self) -> Option<Memory> {
        self.broker.and_then(Pid::memory)
    }
}

/// A moment: the counts, and what was used until then.
pub(super) struct Mark {
    pub(super) at: Instant,
    pub(super) tally: Tally,
    sent: u64,
    late: u64,
    broker_cpu: Option<Duration>,
    own_cpu: Option<Duration>,
    store_bytes: Option<u64>,
}

impl Mark {
    pub(super) fn set(course: &Course) -> Self {
        let [sent, late] = course.lateness.counts();
        Self {
            at: Instant::now(),
            tally: course.ledger.tally(),
            sent,
            late,
            broker_cpu: course.watch.broker.and_then(Pid::cpu),
            own_cpu: Pid::own().cpu(),
            store_bytes: course.watch.store_bytes(),
        }
    }
}

/// The results of a run.
pub(super) struct Measured {
    /// How long it was measured.
    pub(super) time: Duration,
    /// Leases settled in that time.
    pub(super) settled: u64,
    /// Leases extended in that time.
    pub(super) extended: u64,
    pub(super) rpcs: Vec<(Rpc, Summary)>,
    /// For an open loop.
    pub(super) timetable: Option<Timetable>,
    pub(super) broker_cpu: Option<Duration>,
    pub(super) own_cpu: Option<Duration>,
    pub(super) memory: Option<Memory>,
    /// The store's size at both moments.
    pub(super) store_bytes: [Option<u64>; 2],
    pub(super) minutes: Vec<Minute>,
    /// All that was done, before, in and after that time.
    pub(super) total: Tally,
    pub(super) balance: Balance,
    /// How many leases a claim got once everything had ended.
    pub(super) claimed_after: u64,
}

/// What became of the claims that were due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timetable {
    pub(super) sent: u64,
    /// Sent, but not when they were due.
    pub(super) late: u64,
    /// Due, and not sent before the end.
    pub(super) missed: u64,
}

impl Measured {
    pub(super) fn between(start: &Mark, end: &Mark, course: &Course) -> Self {
        let spent = |start: Option<Duration>, end: Option<Duration>| {
            start.zip(end).map(|(start, end)| end.saturating_sub(start))
        };
        let time = end.at - start.at;
        let timetable = course.load.claims_due_in(time).map(|due| Timetable {
            sent: end.sent - start.sent,
            late: end.late - start.late,
            missed: due.saturating_sub(end.sent - start.sent),
        });
        Self {
            time,
            settled: end.tally.settled - start.tally.settled,
            extended: end.tally.extended - start.tally.extended,
            rpcs: course.latencies.summaries(),
            timetable,
            broker_cpu: spent(start.broker_cpu, end.broker_cpu),
            own_cpu: spent(start.own_cpu, end.own_cpu),
            memory: course.watch.memory(),
            store_bytes: [start.store_bytes, end.store_bytes],
            minutes: Vec::new(),
            total: Tally::default(),
            balance: Balance::default(),
            claimed_after: 0,
        }
    }

    /// Returns how many a second a count is.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        per_second(count, self.time)
    }

    /// Returns the calls of all rpcs a second.
    pub(super) fn calls_per_second(&self) -> f64 {
        let calls = self.rpcs.iter().map(|(_, summary)| summary.calls);
        self.per_second(calls.sum())
    }

    /// Returns the items a second.
    pub(super) fn items_per_second(&self) -> f64 {
        self.per_second(self.settled)
    }

    /// Returns the cores that a processor time keeps busy.
    pub(super) fn cores(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() / self.time.as_secs_f64().max(1e-6)
    }

    /// Returns the microseconds of a processor time that an item takes; none without items.
    #[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
    pub(super) fn micros_per_item(&self, cpu: Duration) -> Option<f64> {
        (self.settled > 0).then(|| cpu.as_secs_f64() * 1e6 / self.settled as f64)
    }

    /// Returns the last whole minute's items a second as a share of the first's.
    pub(super) fn last_minute_to_first(&self) -> Option<f64> {
        let [first, .., last] = &*self.minutes else {
            return None;
        };
        (first.items_per_second > 0.0).then(|| last.items_per_second / first.items_per_second)
    }
}

/// Returns how many a second a count is.
#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
pub(super) fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-6)
}
