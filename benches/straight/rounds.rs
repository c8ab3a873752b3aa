//! All runs on a database: for each design and number of workers, the access modes alternate. Each run is checked.

use std::collections::HashSet;

use crate::arguments::Arguments;
use crate::child_broker::{Broker, StatementsPerCall};
use crate::cpu_time::Process;
use crate::database::{Database, Plan};
use crate::design::{Access, Design};
use crate::grpc_worker;
use crate::run_window::{RunWindow, WorkerCounts};

/// The results of all runs of one kind.
pub(crate) struct Outcome {
    pub(crate) database: &'static str,
    pub(crate) design: Design,
    pub(crate) workers: u32,
    pub(crate) access: Access,
    /// Items per second of each run.
    pub(crate) rates: Vec<f64>,
    /// Wasted tries per item, of all runs.
    pub(crate) wasted: f64,
    /// Counts of the last run.
    pub(crate) statements: Option<StatementsPerCall>,
    /// CPU time of the last run.
    pub(crate) cost: Cost,
}

/// CPU time per item in microseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    /// CPU time of the workers. Includes SQLite if they use it directly.
    pub(crate) workers: Option<f64>,
    pub(crate) broker: Option<f64>,
    pub(crate) server: Option<f64>,
}

struct Run {
    worked: WorkerCounts,
    rate: f64,
    statements: Option<StatementsPerCall>,
    cost: Cost,
}

/// Runs everything on a database.
pub(crate) async fn all(arguments: &Arguments, database: &mut impl Database) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for design in Design::ALL {
        for &workers in &arguments.workers {
            let access_modes = database.access_modes();
            let mut runs: Vec<Vec<Run>> = access_modes.iter().map(|_| Vec::new()).collect();
            for _ in 0..arguments.rounds {
                for (access, runs) in access_modes.iter().zip(&mut runs) {
                    let run = run(arguments, database, design, *access, workers).await;
                    let (database, design, access) =
                        (database.name(), design.name(), access.name());
                    eprintln!(
                        "{database}, {design}, {workers} workers, {access}: {:.0} items/s",
                        run.rate
                    );
                    runs.push(run);
                }
            }
            let outcome = |(access, runs): (&Access, Vec<Run>)| Outcome {
                database: database.name(),
                design,
                workers,
                access: *access,
                rates: runs.iter().map(|run| run.rate).collect(),
                wasted: {
                    let sum = |of: fn(&WorkerCounts) -> u64| {
                        runs.iter().map(|run| of(&run.worked)).sum::<u64>()
                    };
                    ratio(sum(|worked| worked.wasted), sum(|worked| worked.measured))
                },
                statements: runs.last().and_then(|run| run.statements),
                cost: runs.last().map(|run| run.cost).unwrap_or_default(),
            };
            outcomes.extend(access_modes.iter().zip(runs).map(outcome));
        }
    }
    outcomes
}

async fn run(
    arguments: &Arguments,
    database: &mut impl Database,
    design: Design,
    access: Access,
    workers: u32,
) -> Run {
    let rows = arguments.rows;
    database.fill(design, access, rows).await;
    let broker = access.has_broker().then(|| {
        let configuration = format!("{}{}", database.store(), design.queue());
        Broker::start(&configuration)
    });
    let window = RunWindow::from_now(arguments);
    let processes = [
        Some(Process::Alone(std::process::id())),
        broker.as_ref().map(|broker| Process::Alone(broker.id())),
        arguments.server_pid.map(Process::WithChildren),
    ];
    let used = tokio::spawn(measure_cpu(processes, window));
    let worked = if let Some(broker) = &broker {
        grpc_worker::work(&broker.address, access, workers, window).await
    } else {
        let plan = Plan {
            design,
            access,
            workers,
            rows,
            window,
        };
        database.work(plan).await
    };
    let mut all = WorkerCounts::default();
    for one in worked {
        all.add(one);
    }
    let used = used.await.expect("a measurement");
    let shared = broker.map(Broker::stop);
    check(&all, database.unprocessed(design).await, rows);
    let [workers, broker, server] = used.map(|used| Some(used? / ratio(all.measured, 1)));
    Run {
        rate: ratio(all.measured, 1) / window.duration().as_secs_f64(),
        worked: all,
        statements: shared,
        cost: Cost {
            workers,
            broker,
            server,
        },
    }
}

/// Returns the CPU time of each process within the window, in microseconds.
async fn measure_cpu<const N: usize>(
    processes: [Option<Process>; N],
    window: RunWindow,
) -> [Option<f64>; N] {
    let used = || processes.map(|process| process?.cpu_time());
    tokio::time::sleep_until(window.start.into()).await;
    let before = used();
    tokio::time::sleep_until(window.end.into()).await;
    let mut spent = [None; N];
    for ((spent, before), after) in spent.iter_mut().zip(before).zip(used()) {
        *spent = before.zip(after).map(|(before, after)| {
            let spent = after.saturating_sub(before);
            spent.as_secs_f64() * 1_000_000.0
        });
    }
    spent
}

/// Checks that every row was processed at most once, and that the table agrees with the workers.
fn check(worked: &WorkerCounts, unprocessed: Vec<i64>, rows: i64) {
    let processed: HashSet<i64> = worked.keys.iter().copied().collect();
    assert_eq!(
        processed.len(),
        worked.keys.len(),
        "an item was processed twice"
    );
    let left: HashSet<i64> = unprocessed.into_iter().collect();
    let right = (1..=rows).all(|key| processed.contains(&key) != left.contains(&key));
    assert!(right, "the table does not agree with the workers");
    assert!(
        !left.is_empty(),
        "the table was empty before the run ended: increase --rows"
    );
}

#[expect(clippy::cast_precision_loss, reason = "printed with few digits")]
fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to as f64
}
