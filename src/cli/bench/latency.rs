//! How long calls take: a histogram for each rpc, in a few shards, so that ten thousand workers neither share one lock
//! nor hold ten thousand histograms.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use hdrhistogram::Histogram;

/// An rpc that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rpc {
    ClaimBatch,
    Complete,
    Fail,
    Release,
    Heartbeat,
    Enqueue,
    Check,
}

impl Rpc {
    pub(super) const ALL: [Self; 7] = [
        Self::ClaimBatch,
        Self::Complete,
        Self::Fail,
        Self::Release,
        Self::Heartbeat,
        Self::Enqueue,
        Self::Check,
    ];

    /// Returns the name as the API spells it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClaimBatch => "ClaimBatch",
            Self::Complete => "Complete",
            Self::Fail => "Fail",
            Self::Release => "Release",
            Self::Heartbeat => "Heartbeat",
            Self::Enqueue => "Enqueue",
            Self::Check => "Check",
        }
    }

    /// Returns the name as results in JSON spell it.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::ClaimBatch => "claim_batch",
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::Release => "release",
            Self::Heartbeat => "heartbeat",
            Self::Enqueue => "enqueue",
            Self::Check => "check",
        }
    }
}

/// Times in microseconds, to three digits, up to ten minutes; what lasts longer counts as ten minutes.
type Times = Histogram<u32>;

const LONGEST: u64 = 600_000_000;
const DIGITS: u8 = 3;

fn no_times() -> Times {
    Times::new_with_bounds(1, LONGEST, DIGITS).expect("bounds that a histogram takes")
}

/// The times of all calls of one run.
pub(super) struct Latencies {
    shards: Box<[Mutex<Shard>]>,
}

struct Shard {
    rpcs: [Times; Rpc::ALL.len()],
    /// Claims since the last whole minute.
    lately: Times,
}

impl Latencies {
    pub(super) fn new() -> Self {
        let shard = |_| {
            Mutex::new(Shard {
                rpcs: std::array::from_fn(|_| no_times()),
                lately: no_times(),
            })
        };
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            shards: (0..2 * cores).map(shard).collect(),
        }
    }

    /// Adds a call of the worker of that number.
    pub(super) fn add(&self, worker: usize, rpc: Rpc, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(LONGEST);
        let mut shard = lock(&self.shards[worker % self.shards.len()]);
        shard.rpcs[rpc as usize].saturating_record(micros);
        if rpc == Rpc::ClaimBatch {
            shard.lately.saturating_record(micros);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            for times in &mut shard.rpcs {
                times.reset();
            }
            shard.lately.reset();
        }
    }

    /// Returns what is known of each rpc that was called.
    pub(super) fn summaries(&self) -> Vec<(Rpc, Summary)> {
        let summary = |rpc: Rpc| {
            let times = self.merged(|shard| &mut shard.rpcs[rpc as usize]);
            (!times.is_empty()).then(|| (rpc, Summary::of(&times)))
        };
        Rpc::ALL.into_iter().filter_map(summary).collect()
    }

    /// Returns what is known of the claims since this was asked last.
    pub(super) fn claims_lately(&self) -> Option<Summary> {
        let times = self.merged(|shard| &mut shard.lately);
        for shard in &self.shards {
            lock(shard).lately.reset();
        }
        (!times.is_empty()).then(|| Summary::of(&times))
    }

    fn merged(&self, of: impl Fn(&mut Shard) -> &mut Times) -> Times {
        let mut all = no_times();
        for shard in &self.shards {
            all.add(&*of(&mut lock(shard)))
                .expect("histograms of the same bounds");
        }
        all
    }
}

/// A panic in another task has left no histogram half written.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calls of one rpc in numbers; times in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    pub(super) calls: u64,
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) p999: u64,
    pub(super) max: u64,
}

impl Summary {
    fn of(times: &Times) -> Self {
        Self {
            calls: times.len(),
            p50: times.value_at_quantile(0.5),
            p99: times.value_at_quantile(0.99),
            p999: times.value_at_quantile(0.999),
            max: times.max(),
        }
    }
}
