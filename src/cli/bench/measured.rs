//! What a run measured between two moments.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::latency::{Rpc, Summary};
use super::ledger::Tally;
use super::run::Course;
use super::usage::{Pid, store_bytes};

/// What is watched besides the calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    pub(super) broker: Option<Pid>,
    pub(super) file: Option<PathBuf>,
}

/// A moment: the counts and what was used until then.
pub(super) struct Mark {
    pub(super) at: Instant,
    tally: Tally,
    broker_cpu: Option<Duration>,
    own_cpu: Option<Duration>,
    store_bytes: Option<u64>,
}

impl Mark {
    pub(super) fn set(course: &Course, watch: &Watch) -> Self {
        Self {
            at: Instant::now(),
            tally: course.ledger.tally(),
            broker_cpu: watch.broker.and_then(Pid::cpu),
            own_cpu: Pid::own().cpu(),
            store_bytes: watch.file.as_deref().and_then(store_bytes),
        }
    }
}

/// The measure of a run.
pub(super) struct Measured {
    pub(super) time: Duration,
    /// Leases settled in that time.
    pub(super) settled: u64,
    pub(super) extended: u64,
    pub(super) rpcs: Vec<(Rpc, Summary)>,
    pub(super) broker_cpu: Option<Duration>,
    pub(super) own_cpu: Option<Duration>,
    /// The store's size at both moments.
    pub(super) store_bytes: [Option<u64>; 2],
}

impl Measured {
    pub(super) fn between(start: &Mark, end: &Mark, course: &Course) -> Self {
        let spent = |start: Option<Duration>, end: Option<Duration>| {
            start.zip(end).map(|(start, end)| end.saturating_sub(start))
        };
        Self {
            time: end.at - start.at,
            settled: end.tally.settled - start.tally.settled,
            extended: end.tally.extended - start.tally.extended,
            rpcs: course.latencies.summaries(),
            broker_cpu: spent(start.broker_cpu, end.broker_cpu),
            own_cpu: spent(start.own_cpu, end.own_cpu),
            store_bytes: [start.store_bytes, end.store_bytes],
        }
    }

    /// Returns how many a second a count is.
    #[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.time.as_secs_f64().max(1e-6)
    }

    /// Returns the calls of all rpcs.
    pub(super) fn calls(&self) -> u64 {
        self.rpcs.iter().map(|(_, summary)| summary.calls).sum()
    }
}
