//! One run of a load on a layer: fill, warm up, measure, stop.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::latency::Latencies;
use super::layer::{Layer, Place, Terms};
use super::ledger::Ledger;
use super::load::{Load, Work};
use super::measured::{Mark, Measured, Watch};
use super::pace::{Lateness, Pace};
use super::producer::Producer;
use super::shares::Shares;
use super::worker::Worker;
use crate::cli::Failure;

/// How many producers fill a queue: enough to keep full lists on their way.
const PRODUCERS: usize = 4;
/// How long calls under way may take once the run is over.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all tasks of a run share.
pub(super) struct Course {
    pub(super) load: Load,
    pub(super) ledger: Ledger,
    pub(super) latencies: Latencies,
    pub(super) lateness: Lateness,
    pub(super) stop: CancellationToken,
}

type Tasks = JoinSet<Result<(), Failure>>;

/// Puts a load on the layer that `open` gives access to.
pub(super) async fn run<L: Layer>(
    load: &Load,
    open: impl Fn(Place, &Terms) -> L,
    watch: &Watch,
) -> Result<Measured, Failure> {
    let course = Arc::new(Course {
        ledger: Ledger::new(load.queues, load.goal()),
        latencies: Latencies::new(),
        lateness: Lateness::default(),
        stop: CancellationToken::new(),
        load: load.clone(),
    });
    let mut tasks = Tasks::new();
    let producers = || {
        (0..PRODUCERS.max(load.queues)).map(|at| {
            let place = Place {
                worker: load.workers + at,
                queue: at % load.queues,
            };
            Producer {
                layer: open(place, &load.terms),
                place,
                course: course.clone(),
            }
        })
    };
    let count = producers().len();
    for (at, mut producer) in producers().enumerate() {
        let items = part(load.items_before(), count, at);
        tasks.spawn(async move { producer.fill(items).await });
    }
    all(&mut tasks).await?;

    let mut start = Mark::set(&course, watch);
    course.latencies.clear();
    for worker in 0..load.workers {
        let place = Place {
            worker,
            queue: worker % load.queues,
        };
        let pace = |rate| Pace::new(start.at, rate, load.workers, load.batch, worker);
        let worker = Worker {
            layer: open(place, &load.terms),
            place,
            course: course.clone(),
            shares: Shares::new(load.mix.fail, load.mix.release, worker),
            pace: load.rate.map(pace),
        };
        tasks.spawn(worker.work());
    }
    if let Work::For { backlog, .. } = load.work
        && backlog > 0
    {
        for (at, producer) in producers().enumerate() {
            tasks.spawn(producer.keep_filled(part(backlog, load.queues, at % load.queues)));
        }
    }
    if !load.warm_up.is_zero() {
        unless_failed(&mut tasks, tokio::time::sleep(load.warm_up)).await?;
        course.latencies.clear();
        start = Mark::set(&course, watch);
    }
    match load.work {
        Work::Items(_) => unless_failed(&mut tasks, course.ledger.done().cancelled()).await?,
        Work::For { time, .. } | Work::Hold { time, .. } => {
            unless_failed(&mut tasks, tokio::time::sleep_until(start.at + time)).await?;
        }
    }
    let end = Mark::set(&course, watch);
    let measured = Measured::between(&start, &end, &course);
    course.stop.cancel();
    match tokio::time::timeout(PATIENCE, all(&mut tasks)).await {
        Ok(ended) => ended?,
        Err(_) => return Err(Failure::unavailable("bench: calls are not answered")),
    }
    Ok(measured)
}

/// Returns the part of `items` that the task of that number does.
fn part(items: u64, tasks: usize, at: usize) -> u64 {
    let (tasks, at) = (tasks as u64, at as u64);
    items / tasks + u64::from(at < items % tasks)
}

/// Waits for what ends the measure, or for a task that fails.
async fn unless_failed(tasks: &mut Tasks, end: impl Future<Output = ()>) -> Result<(), Failure> {
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            () = &mut end => return Ok(()),
            Some(ended) = tasks.join_next() => outcome(ended)?,
        }
    }
}

async fn all(tasks: &mut Tasks) -> Result<(), Failure> {
    while let Some(ended) = tasks.join_next().await {
        outcome(ended)?;
    }
    Ok(())
}

fn outcome(ended: Result<Result<(), Failure>, tokio::task::JoinError>) -> Result<(), Failure> {
    ended.unwrap_or_else(|error| Err(Failure::refused(format!("bench: FAILED {error}"))))
}
