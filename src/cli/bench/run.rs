//! One run of a load on a layer: fill, warm up, measure, stop.

use std::sync::Arc;

use super::course::{Course, Tasks};
use super::holder::Holder;
use super::layer::{Layer, Place, Terms};
use super::load::{Load, Work};
use super::measured::{Mark, Measured, Watch};
use super::minutes::Minutes;
use super::pace::Pace;
use super::producer::Producer;
use super::shares::Shares;
use super::view::View;
use super::worker::Worker;
use crate::cli::CommandError;

/// How many producers there are, if not more queues: enough to keep full lists on their way.
const PRODUCERS: usize = 4;

/// Puts a load on the layer that `open` gives access to; `name` is what the run is called while it lasts.
pub(super) async fn run<L: Layer>(
    name: &'static str,
    load: &Load,
    watch: &Watch,
    open: impl Fn(Place, &Terms) -> L,
) -> Result<Measured, CommandError> {
    let course = Course::new(load, watch);
    let _view = View::show(name, course.clone());
    let mut tasks = Tasks::default();
    for (mut producer, items) in producers(&course, &open, load.items_before()) {
        tasks.spawn(async move { producer.fill(items).await });
    }
    tasks.all().await?;

    course.latencies.clear();
    let mut start = Mark::set(&course);
    match load.work {
        Work::Hold { leases, .. } => {
            hold(&mut tasks, &course, &open, leases);
            // What is measured begins when all are held.
            tasks
                .unless_one_fails(course.ledger.done().cancelled())
                .await?;
            course.latencies.clear();
            start = Mark::set(&course);
        }
        Work::Items(_) => work(&mut tasks, &course, &open, &start),
        Work::For { backlog, .. } => {
            work(&mut tasks, &course, &open, &start);
            for (producer, backlog) in producers(&course, &open, backlog) {
                tasks.spawn(producer.keep_filled(backlog));
            }
        }
    }
    if !load.warm_up.is_zero() {
        let warm = tokio::time::sleep(load.warm_up);
        tasks.unless_one_fails(warm).await?;
        course.latencies.clear();
        start = Mark::set(&course);
    }
    let mut minutes = Minutes::from(&start, load.time());
    let end = async {
        match load.time() {
            Some(time) => tokio::time::sleep_until(start.at + time).await,
            None => course.ledger.done().cancelled().await,
        }
    };
    let watched = async {
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                () = minutes.next(&course) => {}
                () = &mut end => return,
            }
        }
    };
    tasks.unless_one_fails(watched).await?;
    let end = Mark::set(&course);
    let measured = Measured::between(&start, &end, &course);
    course.stop.cancel();
    tasks.end().await?;
    Ok(Measured {
        minutes: minutes.rows(),
        total: course.ledger.tally(),
        balance: course.ledger.balance(),
        claimed_after: match load.work {
            Work::Items(_) => claim_after(load, &open).await?,
            Work::For { .. } | Work::Hold { .. } => 0,
        },
        ..measured
    })
}

/// Starts the workers.
fn work<L: Layer>(
    tasks: &mut Tasks,
    course: &Arc<Course>,
    open: &impl Fn(Place, &Terms) -> L,
    start: &Mark,
) {
    let load = &course.load;
    for place in places(load) {
        let pace = |rate| Pace::new(start.at, rate, load, place.worker);
        let worker = Worker {
            layer: open(place, &load.terms),
            place,
            course: course.clone(),
            shares: Shares::new(load.mix.fail, load.mix.release, place.worker),
            pace: load.rate.map(pace),
        };
        tasks.spawn(worker.work());
    }
}

/// Starts workers that only hold leases.
fn hold<L: Layer>(
    tasks: &mut Tasks,
    course: &Arc<Course>,
    open: &impl Fn(Place, &Terms) -> L,
    leases: u64,
) {
    for place in places(&course.load) {
        let holder = Holder::new(
            open(place, &course.load.terms),
            place,
            course.clone(),
            part(leases, course.load.workers, place.worker),
        );
        tasks.spawn(holder.hold());
    }
}

/// Returns the producers, each with its part of `items`.
fn producers<L: Layer>(
    course: &Arc<Course>,
    open: &impl Fn(Place, &Terms) -> L,
    items: u64,
) -> Vec<(Producer<L>, u64)> {
    let load = &course.load;
    let count = PRODUCERS.max(load.queues);
    let producer = |at: usize| {
        let place = Place {
            worker: load.workers + at,
            queue: at % load.queues,
        };
        let producer = Producer {
            layer: open(place, &load.terms),
            place,
            course: course.clone(),
        };
        (producer, part(items, count, at))
    };
    let all = (0..count).map(producer);
    all.filter(|(_, items)| *items > 0).collect()
}

fn places(load: &Load) -> impl Iterator<Item = Place> {
    let queues = load.queues;
    (0..load.workers).map(move |worker| Place {
        worker,
        queue: worker % queues,
    })
}

/// Claims from each queue after everything has ended, gives back what comes, and returns how much that was.
async fn claim_after<L: Layer>(
    load: &Load,
    open: &impl Fn(Place, &Terms) -> L,
) -> Result<u64, CommandError> {
    let terms = Terms {
        wait: None,
        ..load.terms.clone()
    };
    let mut claimed = 0;
    for queue in 0..load.queues {
        let mut layer = open(Place { worker: 0, queue }, &terms);
        let leases = layer.claim(1).await?;
        claimed += leases.len() as u64;
        if !leases.is_empty() {
            layer.settle(super::layer::Ending::Release, &leases).await?;
        }
    }
    Ok(claimed)
}

/// Returns the part of `items` that the task of that number does.
fn part(items: u64, tasks: usize, at: usize) -> u64 {
    let (tasks, at) = (tasks as u64, at as u64);
    items / tasks + u64::from(at < items % tasks)
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn the_parts_of_all_tasks_are_the_whole() {
        for (items, tasks) in [(0, 3), (2, 3), (10, 3), (1_000, 7)] {
            let parts = (0..tasks).map(|at| part(items, tasks, at));
            assert_eq!(parts.sum::<u64>(), items);
        }
    }
}
