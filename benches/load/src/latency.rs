//! Latencies of calls: one histogram per rpc, which all workers share. A histogram per worker would need too much
//! memory with ten thousand workers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// A measured rpc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rpc {
    ClaimBatch,
    Complete,
    Fail,
    Release,
    Heartbeat,
    Enqueue,
    /// The empty call of the health service.
    Check,
}

/// Latencies in microseconds with three significant digits.
type Latency = Histogram<u32>;

/// A longer call is recorded as 10 minutes.
const MAX_LATENCY_US: u64 = 600_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

fn empty_histogram() -> Latency {
    Latency::new_with_bounds(1, MAX_LATENCY_US, SIGNIFICANT_DIGITS).expect("valid bounds")
}

/// The latencies of all calls of a run.
pub(crate) struct Latencies(Mutex<Histograms>);

struct Histograms {
    rpcs: BTreeMap<Rpc, Latency>,
    /// Claims since the last call of [`Latencies::take_recent_claims`].
    recent_claims: Latency,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Histograms {
            rpcs: BTreeMap::new(),
            recent_claims: empty_histogram(),
        }))
    }

    /// Records a call.
    pub(crate) fn record(&self, rpc: Rpc, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(MAX_LATENCY_US);
        let mut histograms = self.lock();
        let histogram = histograms.rpcs.entry(rpc).or_insert_with(empty_histogram);
        histogram.saturating_record(micros);
        if rpc == Rpc::ClaimBatch {
            histograms.recent_claims.saturating_record(micros);
        }
    }

    /// Removes all records.
    pub(crate) fn clear(&self) {
        let mut histograms = self.lock();
        histograms.rpcs.clear();
        histograms.recent_claims.reset();
    }

    /// Summarizes each rpc that was called. `time`: the time over which the calls were recorded.
    pub(crate) fn summarize(&self, time: Duration) -> BTreeMap<Rpc, RpcSummary> {
        let histograms = self.lock();
        let summary = |(rpc, histogram): (&Rpc, _)| (*rpc, RpcSummary::new(histogram, time));
        histograms.rpcs.iter().map(summary).collect()
    }

    /// Returns the 99th percentile of the claims since the last call, in microseconds. `None`: there were no claims.
    pub(crate) fn take_recent_claims(&self) -> Option<u64> {
        let claims = &mut self.lock().recent_claims;
        let p99 = (!claims.is_empty()).then(|| claims.value_at_quantile(0.99));
        claims.reset();
        p99
    }

    /// Locks the histograms. Ignores poisoning: a panic in any task fails the run, so a partial record is not
    /// reported.
    fn lock(&self) -> MutexGuard<'_, Histograms> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of calls of one rpc and percentiles of their latency.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct RpcSummary {
    pub(crate) calls: u64,
    pub(crate) calls_per_second: f64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) p999_us: u64,
    pub(crate) max_us: u64,
}

impl RpcSummary {
    fn new(histogram: &Latency, time: Duration) -> Self {
        Self {
            calls: histogram.len(),
            calls_per_second: per_second(histogram.len(), time),
            p50_us: histogram.value_at_quantile(0.5),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        }
    }
}

/// Returns a count divided by a time in seconds.
#[expect(clippy::cast_precision_loss, reason = "printed with few digits")]
pub(crate) fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-6)
}
