//! All runs on a database: each design, each number of workers, each way in turn, and each run checked.

use std::collections::HashSet;

use crate::arguments::Arguments;
use crate::broker::{Broker, Served};
use crate::course::{Course, Worked};
use crate::database::{Database, Plan};
use crate::design::{Design, Way};
use crate::over_grpc;
use crate::processor_time::Process;

/// What came of the runs of one kind.
pub(crate) struct Outcome {
    pub(crate) database: &'static str,
    pub(crate) design: Design,
    pub(crate) workers: u32,
    pub(crate) way: Way,
    /// Items a second, of each run.
    pub(crate) rates: Vec<f64>,
    /// Tries that gave nothing, for each item; of all runs.
    pub(crate) wasted: f64,
    /// Of the last run.
    pub(crate) served: Option<Served>,
    /// Microseconds of processor time for each item, of the last run.
    pub(crate) cost: Cost,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    /// The workers', and SQLite's where they use it themselves.
    pub(crate) workers: Option<f64>,
    pub(crate) broker: Option<f64>,
    pub(crate) server: Option<f64>,
}

struct Run {
    worked: Worked,
    rate: f64,
    served: Option<Served>,
    cost: Cost,
}

/// Makes all runs on a database.
pub(crate) async fn all(arguments: &Arguments, database: &mut impl Database) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for design in Design::ALL {
        for &workers in &arguments.workers {
            let ways = database.ways();
            let mut runs: Vec<Vec<Run>> = ways.iter().map(|_| Vec::new()).collect();
            for _ in 0..arguments.rounds {
                for (way, runs) in ways.iter().zip(&mut runs) {
                    let run = run(arguments, database, design, *way, workers).await;
                    let (database, design, way) = (database.name(), design.name(), way.name());
                    eprintln!(
                        "{database}, {design}, {workers} workers, {way}: {:.0} items/s",
                        run.rate
                    );
                    runs.push(run);
                }
            }
            let outcome = |(way, runs): (&Way, Vec<Run>)| Outcome {
                database: database.name(),
                design,
                workers,
                way: *way,
                rates: runs.iter().map(|run| run.rate).collect(),
                wasted: {
                    let sum = |of: fn(&Worked) -> u64| {
                        runs.iter().map(|run| of(&run.worked)).sum::<u64>()
                    };
                    ratio(sum(|worked| worked.wasted), sum(|worked| worked.measured))
                },
                served: runs.last().and_then(|run| run.served),
                cost: runs.last().map(|run| run.cost).unwrap_or_default(),
            };
            outcomes.extend(ways.iter().zip(runs).map(outcome));
        }
    }
    outcomes
}

async fn run(
    arguments: &Arguments,
    database: &mut impl Database,
    design: Design,
    way: Way,
    workers: u32,
) -> Run {
    let rows = arguments.rows;
    database.fill(design, way, rows).await;
    let broker = way.has_broker().then(|| {
        let configuration = format!("{}{}", database.store(), design.queue());
        Broker::start(&configuration)
    });
    let course = Course::from_now(arguments);
    let processes = [
        Some(Process::Alone(std::process::id())),
        broker.as_ref().map(|broker| Process::Alone(broker.id())),
        arguments.server_pid.map(Process::WithChildren),
    ];
    let used = tokio::spawn(watch(processes, course));
    let worked = if let Some(broker) = &broker {
        over_grpc::work(&broker.address, way, workers, course).await
    } else {
        let plan = Plan {
            design,
            way,
            workers,
            rows,
            course,
        };
        database.work(plan).await
    };
    let mut all = Worked::default();
    for one in worked {
        all.add(one);
    }
    let used = used.await.expect("a clock");
    let shared = broker.map(Broker::stop);
    check(&all, database.unprocessed(design).await, rows);
    let [workers, broker, server] = used.map(|used| Some(used? / ratio(all.measured, 1)));
    Run {
        rate: ratio(all.measured, 1) / course.time().as_secs_f64(),
        worked: all,
        served: shared,
        cost: Cost {
            workers,
            broker,
            server,
        },
    }
}

/// Returns how many microseconds of processor time the processes use while the run is measured.
async fn watch<const N: usize>(
    processes: [Option<Process>; N],
    course: Course,
) -> [Option<f64>; N] {
    let used = || processes.map(|process| process?.used());
    tokio::time::sleep_until(course.begin.into()).await;
    let before = used();
    tokio::time::sleep_until(course.end.into()).await;
    let mut spent = [None; N];
    for ((spent, before), after) in spent.iter_mut().zip(before).zip(used()) {
        *spent = before.zip(after).map(|(before, after)| {
            let spent = after.saturating_sub(before);
            spent.as_secs_f64() * 1_000_000.0
        });
    }
    spent
}

/// Every row was processed once or not at all, and those that were are those that the workers say.
fn check(worked: &Worked, unprocessed: Vec<i64>, rows: i64) {
    let processed: HashSet<i64> = worked.keys.iter().copied().collect();
    assert_eq!(
        processed.len(),
        worked.keys.len(),
        "an item was processed twice"
    );
    let left: HashSet<i64> = unprocessed.into_iter().collect();
    let right = (1..=rows).all(|key| processed.contains(&key) != left.contains(&key));
    assert!(right, "the table does not have what the workers have done");
    assert!(
        !left.is_empty(),
        "the table was empty before the run was over: it needs more --rows"
    );
}

#[expect(clippy::cast_precision_loss, reason = "figures to read")]
fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to as f64
}
