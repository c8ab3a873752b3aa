//! One run of a load: enqueue the first items, warm up, measure, stop, and collect the results.

use std::sync::Arc;

use super::args::LoadArgs;
use super::client::{Ending, GrpcClient, WorkerId};
use super::heartbeat_worker::HeartbeatWorker;
use super::process_stats::Watch;
use super::producer::Producer;
use super::progress::Progress;
use super::result::Result;
use super::run_state::{RunState, Tasks};
use super::samples::{Measured, Sample, collect_minutes};
use super::worker::Worker;

/// The least number of producers. With fewer, the backlog could run out while their calls are in flight.
const MIN_PRODUCERS: usize = 4;

/// Puts a load on a broker. `open` creates a worker's client.
///
/// # Errors
/// The first call that fails, or calls that are still in flight 60 s after the end.
pub(super) async fn run(
    load: &LoadArgs,
    queues: usize,
    watch: &Watch,
    open: impl Fn(WorkerId) -> GrpcClient,
) -> Result<Measured> {
    let state = RunState::new(load, queues, watch);
    let _progress = Progress::show(state.clone());
    let mut tasks = Tasks::default();
    for (producer, items) in producers(&state, queues, &open, load.initial_items()) {
        tasks.spawn(producer.fill(items));
    }
    tasks.join_all().await?;

    let mut start = start_measurement(&state);
    if let Some(leases) = load.hold {
        for id in worker_ids(load, queues) {
            let to_claim = share(leases, load.workers, id.worker);
            let worker = HeartbeatWorker::new(open(id), id, state.clone(), to_claim);
            tasks.spawn(worker.run());
        }
        // Only the heartbeats are measured, so the measurement starts when all leases are held.
        let all_held = state.ledger.goal_reached().cancelled();
        tasks.run_until(all_held).await?;
        start = start_measurement(&state);
    } else {
        for id in worker_ids(load, queues) {
            let worker = Worker::new(open(id), id, state.clone(), start.at);
            tasks.spawn(worker.run());
        }
        for (producer, backlog) in producers(&state, queues, &open, load.backlog.unwrap_or(0)) {
            tasks.spawn(producer.keep_filled(backlog));
        }
    }
    if let Some(warm_up) = load.warm_up.filter(|warm_up| !warm_up.is_zero()) {
        tasks.run_until(tokio::time::sleep(warm_up)).await?;
        start = start_measurement(&state);
    }

    let end = async {
        match load.duration {
            Some(duration) => tokio::time::sleep_until(start.at + duration).await,
            None => state.ledger.goal_reached().cancelled().await,
        }
    };
    let minutes = tasks
        .run_until(collect_minutes(&state, &start, end))
        .await?;
    let mut measured = Measured::between(&start, &Sample::take(&state), &state);
    state.stop.cancel();
    tasks.join_stopped().await?;
    measured.set_minutes(minutes);
    measured.items = state.ledger.final_counts();
    if load.items.is_some() {
        measured.claimed_after_end = claim_after_end(queues, &open).await?;
    }
    Ok(measured)
}

/// Discards the latencies recorded so far, and takes the first sample.
fn start_measurement(state: &RunState) -> Sample {
    state.latencies.clear();
    Sample::take(state)
}

/// Creates the producers, each with its share of `items`. Leaves out those without a share.
fn producers(
    state: &Arc<RunState>,
    queues: usize,
    open: &impl Fn(WorkerId) -> GrpcClient,
    items: u64,
) -> Vec<(Producer, u64)> {
    let count = MIN_PRODUCERS.max(queues);
    let shares = (0..count).map(|index| (index, share(items, count, index)));
    let producer = |(index, items)| {
        let id = WorkerId {
            worker: state.load.workers + index,
            queue: index % queues,
        };
        let producer = Producer {
            api: open(id),
            id,
            state: state.clone(),
        };
        (producer, items)
    };
    shares
        .filter(|(_, items)| *items > 0)
        .map(producer)
        .collect()
}

fn worker_ids(load: &LoadArgs, queues: usize) -> impl Iterator<Item = WorkerId> {
    (0..load.workers).map(move |worker| WorkerId {
        worker,
        queue: worker % queues,
    })
}

/// Claims from each queue after the run, releases the leases, and returns how many there were. There should be none.
async fn claim_after_end(queues: usize, open: &impl Fn(WorkerId) -> GrpcClient) -> Result<u64> {
    let mut claimed = 0;
    for queue in 0..queues {
        let mut api = open(WorkerId { worker: 0, queue });
        let leases = api.claim(1, None).await?;
        if !leases.is_empty() {
            claimed += leases.len() as u64;
            let (ids, _): (Vec<_>, Vec<_>) = leases.into_iter().unzip();
            api.settle(Ending::Release, ids, None).await?;
        }
    }
    Ok(claimed)
}

/// Returns the share of `items` of the task with this index. The shares of all tasks differ by at most one.
fn share(items: u64, tasks: usize, index: usize) -> u64 {
    let (tasks, index) = (tasks as u64, index as u64);
    items / tasks + u64::from(index < items % tasks)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_add_up_to_the_whole() {
        for (items, tasks) in [(0, 3), (2, 3), (10, 3), (1_000, 7)] {
            let shares = (0..tasks).map(|index| share(items, tasks, index));
            assert_eq!(shares.sum::<u64>(), items);
        }
    }
}
