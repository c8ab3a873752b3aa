//! One run of a load: enqueue the first items, warm up, measure, stop, and collect the results.

use std::sync::Arc;

use tokio::time::Instant;

use crate::client::Client;
use crate::heartbeat_worker::HeartbeatWorker;
use crate::item_ledger::Ending;
use crate::producer;
use crate::progress::Progress;
use crate::result::Result;
use crate::run_state::{RunState, Tasks};
use crate::samples::{Measured, Sample, collect_minutes};
use crate::worker::Worker;

/// The least number of producers. With fewer, the backlog could run out while their calls are in flight.
const MIN_PRODUCERS: usize = 4;

/// Puts a load on a broker.
///
/// # Errors
/// The first call that fails, or calls that are still in flight 60 s after the end.
pub(crate) async fn run(state: &Arc<RunState>) -> Result<Measured> {
    let load = &state.load;
    let queues = state.queues.len();
    let _progress = Progress::show(state.clone());
    let mut tasks = Tasks::default();
    for (client, items) in producers(state, load.initial_items()) {
        tasks.spawn(producer::fill(client, items));
    }
    tasks.join_all().await?;

    let mut start = start_measurement(state);
    if let Some(leases) = load.hold_leases {
        for worker in 0..load.workers {
            let client = Client::new(state, worker, worker % queues);
            let to_claim = share(leases, load.workers, worker);
            tasks.spawn(HeartbeatWorker::new(client, to_claim).run());
        }
        // Only the heartbeats are measured, so the measurement starts when all leases are held.
        let all_held = state.ledger.goal_reached().cancelled();
        tasks.run_until(all_held).await?;
        start = start_measurement(state);
    } else {
        for worker in 0..load.workers {
            let client = Client::new(state, worker, worker % queues);
            tasks.spawn(Worker::new(client, worker, start.at).run());
        }
        for (client, backlog) in producers(state, load.backlog.unwrap_or(0)) {
            tasks.spawn(producer::keep_filled(client, backlog));
        }
    }
    if let Some(warm_up) = load.warm_up.filter(|warm_up| !warm_up.is_zero()) {
        tasks.run_until(tokio::time::sleep(warm_up)).await?;
        start = start_measurement(state);
    }

    let end = async {
        match load.duration {
            Some(duration) => tokio::time::sleep_until(start.at + duration).await,
            None => state.ledger.goal_reached().cancelled().await,
        }
    };
    let minutes = tasks.run_until(collect_minutes(state, &start, end)).await?;
    let mut measured = Measured::between(&start, &Sample::take(state), state);
    state.stop.cancel();
    tasks.join_stopped().await?;
    measured.set_minutes(minutes);
    measured.items = state.ledger.final_counts();
    if load.items.is_some() {
        measured.claimed_after_end = claim_after_end(state).await?;
    }
    Ok(measured)
}

/// Discards the latencies recorded so far, and takes the first sample.
fn start_measurement(state: &RunState) -> Sample {
    state.latencies.clear();
    state.errors.clear();
    Sample::take(state)
}

/// Creates the clients of the producers, each with its share of `items`. Leaves out those without a share.
fn producers(state: &Arc<RunState>, items: u64) -> impl Iterator<Item = (Client, u64)> {
    let queues = state.queues.len();
    let count = MIN_PRODUCERS.max(queues);
    let shares = (0..count).map(move |index| (index, share(items, count, index)));
    let client = move |index| Client::new(state, state.load.workers + index, index % queues);
    shares
        .filter(|(_, items)| *items > 0)
        .map(move |(index, items)| (client(index), items))
}

/// Claims from each queue after the run, releases the leases, and returns how many there were. There should be none.
async fn claim_after_end(state: &Arc<RunState>) -> Result<u64> {
    let mut claimed = 0;
    for queue in 0..state.queues.len() {
        let mut client = Client::new(state, 0, queue);
        let leases = client.claim(1, None, Instant::now()).await?;
        claimed += leases.len() as u64;
        client.settle(Ending::Release, leases, None).await?;
    }
    Ok(claimed)
}

/// Returns the share of `items` of the task with this index. The shares of all tasks differ by at most one.
pub(crate) fn share(items: u64, tasks: usize, index: usize) -> u64 {
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
