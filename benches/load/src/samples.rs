//! The measurement of a run: readings of all counters at its start and its end, and what they show.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker::process::cpu_time;
use serde::Serialize;
use tokio::time::{Instant, interval_at};

use crate::errors::ErrorCounts;
use crate::item_ledger::ItemCounts;
use crate::latency::{Rpc, RpcSummary, per_second};
use crate::run_state::RunState;

const MINUTE: Duration = Duration::from_secs(60);

/// A reading of all counters.
pub(crate) struct Sample {
    pub(crate) at: Instant,
    counts: ItemCounts,
    broker_cpu: Option<Duration>,
    generator_cpu: Option<Duration>,
    store_bytes: Option<u64>,
}

impl Sample {
    pub(crate) fn take(state: &RunState) -> Self {
        Self {
            at: Instant::now(),
            counts: state.ledger.counts(),
            broker_cpu: state.watch.broker_cpu(),
            generator_cpu: cpu_time(std::process::id()),
            store_bytes: state.watch.store_bytes(),
        }
    }
}

/// The results of a run, as in the JSON. Rates and latencies are those between two samples.
#[derive(Default, Serialize)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// Settled items per second.
    pub(crate) items_per_second: f64,
    pub(crate) leases_extended_per_second: f64,
    pub(crate) calls_per_second: f64,
    /// Accepted calls.
    pub(crate) rpcs: BTreeMap<Rpc, RpcSummary>,
    /// Calls that were answered with an error.
    pub(crate) errors: ErrorCounts,
    /// `None`: the load has no `--rate`.
    pub(crate) schedule: Option<ScheduleCounts>,
    pub(crate) broker: BrokerStats,
    pub(crate) generator: CpuStats,
    pub(crate) store_bytes_start: Option<u64>,
    pub(crate) store_bytes_end: Option<u64>,
    pub(crate) minutes: Vec<Minute>,
    /// Items per second of the last whole minute divided by those of the first.
    pub(crate) last_minute_to_first: Option<f64>,
    /// Counts of the whole run, before and after the samples too.
    pub(crate) items: ItemCounts,
    /// Number of leases that a claim returned after all items were settled.
    #[serde(skip)]
    pub(crate) claimed_after_end: u64,
}

/// Numbers of claims that were due by `--rate`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ScheduleCounts {
    #[serde(rename = "claims_sent")]
    pub(crate) sent: u64,
    /// Sent after their due time.
    #[serde(rename = "claims_late")]
    pub(crate) late: u64,
    /// Due, but not sent before the end.
    #[serde(rename = "claims_missed")]
    pub(crate) missed: u64,
}

/// CPU time of a process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[expect(clippy::struct_field_names, reason = "the keys of the JSON")]
pub(crate) struct CpuStats {
    pub(crate) cpu_seconds: Option<f64>,
    /// Average number of busy cores.
    pub(crate) cpu_cores: Option<f64>,
    /// CPU time per settled item, in microseconds.
    pub(crate) cpu_us_per_item: Option<f64>,
}

impl CpuStats {
    #[expect(clippy::cast_precision_loss, reason = "printed with few digits")]
    fn new(start: Option<Duration>, end: Option<Duration>, seconds: f64, settled: u64) -> Self {
        let spent = start
            .zip(end)
            .map(|(start, end)| end.saturating_sub(start).as_secs_f64());
        Self {
            cpu_seconds: spent,
            cpu_cores: spent.map(|spent| spent / seconds.max(1e-6)),
            cpu_us_per_item: spent
                .filter(|_| settled > 0)
                .map(|spent| spent * 1e6 / settled as f64),
        }
    }
}

/// CPU and memory of the broker's process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct BrokerStats {
    #[serde(flatten)]
    pub(crate) cpu: CpuStats,
    pid: Option<u32>,
    pub(crate) resident_bytes_end: Option<u64>,
    pub(crate) resident_bytes_peak: Option<u64>,
}

impl Measured {
    /// Computes the results from two samples. `minutes` and the counts of the whole run are still empty.
    pub(crate) fn between(start: &Sample, end: &Sample, state: &RunState) -> Self {
        let time = end.at - start.at;
        let seconds = time.as_secs_f64();
        let settled = end.counts.settled() - start.counts.settled();
        let extended = end.counts.leases_extended - start.counts.leases_extended;
        let rpcs = state.latencies.summarize(time);
        let calls = rpcs.values().map(|summary| summary.calls).sum();
        let sent = end.counts.scheduled_claims - start.counts.scheduled_claims;
        Self {
            seconds,
            items_per_second: per_second(settled, time),
            leases_extended_per_second: per_second(extended, time),
            calls_per_second: per_second(calls, time),
            rpcs,
            errors: state.errors.counts(),
            schedule: state.load.claims_due(time).map(|due| ScheduleCounts {
                sent,
                late: end.counts.late_claims - start.counts.late_claims,
                missed: due.saturating_sub(sent),
            }),
            broker: BrokerStats {
                cpu: CpuStats::new(start.broker_cpu, end.broker_cpu, seconds, settled),
                pid: state.watch.broker,
                resident_bytes_end: state.watch.resident_bytes(),
                resident_bytes_peak: state.watch.peak_resident_bytes(),
            },
            generator: CpuStats::new(start.generator_cpu, end.generator_cpu, seconds, settled),
            store_bytes_start: start.store_bytes,
            store_bytes_end: end.store_bytes,
            ..Self::default()
        }
    }

    /// Adds the rows of a long run.
    pub(crate) fn set_minutes(&mut self, minutes: Vec<Minute>) {
        if let [first, .., last] = &*minutes
            && first.items_per_second > 0.0
        {
            self.last_minute_to_first = Some(last.items_per_second / first.items_per_second);
        }
        self.minutes = minutes;
    }
}

/// One whole minute of a run. Memory and file size are those at its end.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Minute {
    pub(crate) items_per_second: f64,
    /// `None`: no claim ended in this minute.
    pub(crate) claim_batch_p99_us: Option<u64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) store_bytes: Option<u64>,
}

/// Waits for the end of a run. Returns its whole minutes if it is planned to last two or more.
pub(crate) async fn collect_minutes(
    state: &RunState,
    start: &Sample,
    end: impl Future<Output = ()>,
) -> Vec<Minute> {
    let is_long = state.load.duration.is_some_and(|time| time >= 2 * MINUTE);
    let mut ticks = interval_at(start.at + MINUTE, MINUTE);
    let mut rate = RateMeter::new(start.at, start.counts.settled());
    let mut minutes = Vec::new();
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick(), if is_long => minutes.push(Minute {
                items_per_second: rate.update(state.ledger.counts().settled()),
                claim_batch_p99_us: state.latencies.take_recent_claims(),
                resident_bytes: state.watch.resident_bytes(),
                store_bytes: state.watch.store_bytes(),
            }),
            () = &mut end => return minutes,
        }
    }
}

/// The growth of a counter per second since the last reading.
pub(crate) struct RateMeter {
    last_at: Instant,
    last_count: u64,
}

impl RateMeter {
    pub(crate) fn new(at: Instant, count: u64) -> Self {
        Self {
            last_at: at,
            last_count: count,
        }
    }

    /// Reads the counter. Returns its growth per second since the reading before.
    pub(crate) fn update(&mut self, count: u64) -> f64 {
        let last = std::mem::replace(self, Self::new(Instant::now(), count));
        per_second(count - last.last_count, self.last_at - last.last_at)
    }
}
