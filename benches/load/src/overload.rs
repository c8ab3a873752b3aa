//! The overload run: `bench --overload N`. It measures a broker that gets N times the calls that it can serve.
//!
//! 1. A closed loop finds the capacity: completed items per second.
//! 2. An open loop sends claims and enqueues at N times that rate. It does not wait for answers. Each call has a deadline of
//!    1 s, and is sent again after the delay that a refusal asks for. Beside it, honest workers with connections of their own
//!    extend held leases, and settle items at half of the capacity.
//! 3. The load falls to half of the capacity.
//!
//! The checks say whether the broker has served honest workers all the time. A check that does not hold ends the bench with exit
//! code 1.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lease_broker::cli::CommandError;
use serde::Serialize;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::context::TokioContext;
use tokio_util::task::TaskTracker;

use crate::args::LoadArgs;
use crate::client::Client;
use crate::errors::ErrorCounts;
use crate::heartbeat_worker::HeartbeatWorker;
use crate::item_ledger::Ending;
use crate::latency::{Rpc, RpcSummary};
use crate::producer;
use crate::result::Result;
use crate::run;
use crate::run_state::{RunState, Tasks};
use crate::target::Target;

/// The time after the load has fallen from which latencies must be normal again.
const RECOVERED_AFTER: Duration = Duration::from_secs(1);
const RECOVERY_TIME: Duration = Duration::from_secs(4);
const CALL_DEADLINE: Duration = Duration::from_secs(1);
const OVERLOAD_CONNECTIONS: usize = 32;
const HONEST_WORKERS: usize = 64;
const HELD_LEASES: u64 = 2_000;
const HELD_LEASE: Duration = Duration::from_secs(15);
/// Items that are ready when the overload begins.
const FIRST_ITEMS: u64 = 20_000;
/// The number of open calls of the greedy callers: 100 for each connection, the lowest limit that RFC 9113 recommends. Further
/// calls that are due are not sent, and counted. They would only wait in this process.
const MAX_OPEN_CALLS: usize = 100 * OVERLOAD_CONNECTIONS;

/// The results.
#[derive(Serialize)]
pub(crate) struct Overload {
    factor: f64,
    /// Items per second of the closed loop.
    pub(crate) capacity: f64,
    /// Calls per second that were sent in the overload: first tries of claims and enqueues.
    pub(crate) offered: f64,
    /// Calls that were due and not sent, because too many callers waited.
    pub(crate) unsent: u64,
    /// Items per second that were completed during the overload.
    pub(crate) goodput: f64,
    /// Errors of the greedy callers during the overload.
    pub(crate) errors: ErrorCounts,
    /// Errors of the honest workers during the overload.
    pub(crate) honest_errors: ErrorCounts,
    pub(crate) checks: Vec<Check>,
}

/// A measured value and its limit.
#[derive(Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) limit: f64,
    pub(crate) holds: bool,
}

impl Check {
    fn at_most(name: &'static str, value: f64, limit: f64) -> Self {
        Self {
            name,
            value,
            limit,
            holds: value <= limit,
        }
    }

    fn at_least(name: &'static str, value: f64, limit: f64) -> Self {
        Self {
            holds: value >= limit,
            ..Self::at_most(name, value, limit)
        }
    }
}

/// Runs the three steps against a broker.
///
/// # Errors
/// A call that fails in the first step, or a call of an honest worker that fails for another reason than overload.
pub(crate) async fn run(factor: f64, load: &LoadArgs, target: &Target) -> Result<Overload> {
    let overload_time = load.duration.unwrap_or_default();
    let closed_loop = LoadArgs {
        duration: Some(overload_time / 3),
        ..load.clone()
    };
    let channels = target.connect(closed_loop.connections).await?;
    let before = run::run(&RunState::new(&closed_loop, target, &channels)).await?;
    let capacity = before.items_per_second;
    let normal_p99 = worst_p99(&before.rpcs, &[Rpc::ClaimBatch, Rpc::Complete]);

    let thread = GreedyThread::start()?;
    let connecting = target.connect(OVERLOAD_CONNECTIONS);
    let channels = TokioContext::new(connecting, thread.handle.clone()).await?;
    let greedy = RunState::new(load, target, &channels);
    let honest_load = LoadArgs {
        lease: Some(HELD_LEASE),
        hold_leases: Some(HELD_LEASES),
        workers: HONEST_WORKERS,
        ..load.clone()
    };
    let channels = target.connect(HONEST_WORKERS / 8).await?;
    let state = RunState::new(&honest_load, target, &channels);
    producer::fill(Client::new(&state, 0, 0), FIRST_ITEMS).await?;
    let mut honest = Tasks::default();
    for worker in 0..HONEST_WORKERS {
        let client = Client::new(&state, worker, 0);
        let to_claim = run::share(HELD_LEASES, HONEST_WORKERS, worker);
        honest.spawn(HeartbeatWorker::new(client, to_claim).run());
        let rate = capacity / 2.0 / to_f64(HONEST_WORKERS);
        honest.spawn(settle_at(Client::new(&state, worker, 0), rate));
    }
    state.latencies.clear();
    state.errors.clear();
    let settled_before = state.ledger.counts();
    let start = Instant::now();
    let calls = greedy_calls(greedy.clone(), capacity * factor, overload_time);
    let calls = honest.run_until(thread.handle.spawn(calls)).await?;
    let (sent, unsent) = calls.map_err(|panic| CommandError::failed(panic.to_string()))?;
    let time = start.elapsed();
    let during = state.latencies.summarize(time);
    let greedy_during = greedy.latencies.summarize(time);
    let honest_errors = state.errors.counts();
    let completed = state.ledger.counts().completed + greedy.ledger.counts().completed;
    let goodput = to_f64(completed - settled_before.completed) / time.as_secs_f64();

    // The honest workers go on alone: half of the capacity.
    honest
        .run_until(tokio::time::sleep(RECOVERED_AFTER))
        .await?;
    state.latencies.clear();
    honest.run_until(tokio::time::sleep(RECOVERY_TIME)).await?;
    let after = state.latencies.summarize(RECOVERY_TIME);
    let resident = state.watch.peak_resident_bytes();
    state.stop.cancel();
    honest.join_stopped().await?;

    let starting = [Rpc::ClaimBatch, Rpc::Enqueue];
    let settlements = [Rpc::Complete, Rpc::Heartbeat];
    let refused = settlements.iter().filter_map(|rpc| honest_errors.get(rpc));
    let refused: u64 = refused.flat_map(|reasons| reasons.values()).sum();
    let mut checks = vec![
        Check::at_most(
            "accepted calls, p99 in ms",
            worst_p99(&during, &starting).max(worst_p99(&greedy_during, &starting)),
            250.0,
        ),
        Check::at_most(
            "settlements and heartbeats, p99 in ms",
            worst_p99(&during, &settlements),
            100.0,
        ),
        Check::at_most("settlements and heartbeats refused", to_f64(refused), 0.0),
        Check::at_most(
            "leases lost",
            to_f64(state.ledger.counts().leases_lost + greedy.ledger.counts().leases_lost),
            0.0,
        ),
        Check::at_least("completed items per second", goodput, 0.8 * capacity),
        Check::at_most(
            "p99 in ms, 1 s after the load has fallen",
            worst_p99(&after, &[Rpc::ClaimBatch, Rpc::Complete]),
            2.0 * normal_p99,
        ),
    ];
    if let Some(bytes) = resident {
        let mebibytes = to_f64(bytes >> 20);
        checks.push(Check::at_most(
            "resident memory, peak in MiB",
            mebibytes,
            512.0,
        ));
    }
    Ok(Overload {
        factor,
        capacity,
        offered: to_f64(sent) / time.as_secs_f64(),
        unsent,
        goodput,
        errors: greedy.errors.counts(),
        honest_errors,
        checks,
    })
}

/// The thread of the greedy callers and their connections. In the thread of the honest workers, these would wait for them before
/// their calls leave the bench.
struct GreedyThread {
    handle: Handle,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl GreedyThread {
    fn start() -> Result<Self> {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| {
            CommandError::io(format!("cannot start the async runtime: {error}"))
        })?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }
}

impl Drop for GreedyThread {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Claims and completes this number of items per second, one at a time, until the run ends.
async fn settle_at(mut client: Client, rate: f64) -> Result<()> {
    let stop = client.state.stop.clone();
    let mut due = tokio::time::interval(Duration::from_secs_f64(1.0 / rate.max(0.01)));
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(due.tick()).await.is_some() {
        let leases = client.claim(1, None, Instant::now()).await?;
        client.settle(Ending::Complete, leases, None).await?;
    }
    Ok(())
}

/// Sends claims and enqueues in turns at this rate, without waiting for answers. Claimed items are completed. Returns the
/// number of calls that were sent, and of those that were due and not sent.
async fn greedy_calls(state: Arc<RunState>, rate: f64, time: Duration) -> (u64, u64) {
    let callers = TaskTracker::new();
    let start = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let (mut sent, mut unsent) = (0_u64, 0_u64);
    while start.elapsed() < time {
        ticks.tick().await;
        let mut room = MAX_OPEN_CALLS.saturating_sub(state.open_calls.load(Ordering::Relaxed));
        while to_f64(sent + unsent) < rate * start.elapsed().as_secs_f64() {
            if room == 0 {
                unsent += 1;
                continue;
            }
            room -= 1;
            let number = usize::try_from(sent).unwrap_or(0);
            sent += 1;
            let client = Client::new(&state, number / 2 % OVERLOAD_CONNECTIONS, 0);
            let call = greedy_call(client.timeout(CALL_DEADLINE), number % 2 == 0);
            callers.spawn(tokio::time::timeout(CALL_DEADLINE, call));
        }
    }
    callers.close();
    callers.wait().await;
    (sent, unsent)
}

/// One call of a greedy caller. Its errors are counted and do not end the run.
async fn greedy_call(mut client: Client, claims: bool) {
    if claims {
        let start = Instant::now();
        if let Ok(leases) = client.claim(1, None, start).await {
            // A lease that was claimed in time is settled in any case.
            let state = client.state.clone();
            let mut settler = Client::new(&state, client.connection(), 0);
            tokio::spawn(async move { settler.settle(Ending::Complete, leases, None).await });
        }
    } else {
        let _ = client.enqueue(1).await;
    }
}

/// Returns the largest 99th percentile of these rpcs, in milliseconds.
fn worst_p99(rpcs: &std::collections::BTreeMap<Rpc, RpcSummary>, names: &[Rpc]) -> f64 {
    let micros = names.iter().filter_map(|rpc| Some(rpcs.get(rpc)?.p99_us));
    to_f64(micros.max().unwrap_or(0)) / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "printed with few digits")]
fn to_f64(number: impl TryInto<u64>) -> f64 {
    number.try_into().unwrap_or(u64::MAX) as f64
}
