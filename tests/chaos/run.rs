//! A run: programs work under faults, then all items are completed, and the checker reads journals and tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::balancers::balancer;
use crate::chaos::actor::journal_path;
use crate::chaos::database::Database;
use crate::chaos::figures::Figures;
use crate::chaos::history::History;
use crate::chaos::invariants::{Invariant, Violation, check};
use crate::chaos::journal::{Answer, Asked, Journal};
use crate::chaos::plan::Plan;
use crate::chaos::schedule::{Shape, schedule};
use crate::chaos::site::Site;

/// Runs a plan. Returns the violations, or `None` if a program or the database is missing.
///
/// Prints the seed and the figures. If there are violations that the plan does not cause, the journals and the logs of the
/// brokers are kept.
pub(crate) async fn run(plan: &Plan) -> Option<Vec<Violation>> {
    if !balancer::Kind::Haproxy.is_installed() {
        return None;
    }
    let mut folder = tempfile::tempdir().expect("a folder");
    let database = Database::create(plan.store, folder.path()).await?;
    eprintln!("chaos: seed {}; {plan:?}", plan.seed);
    let mut site = Site::start(plan, database, folder.path()).await;
    let foreign = insert_rows(site.database.clone(), folder.path().to_owned());
    let foreign = AbortOnDropHandle::new(tokio::spawn(foreign));
    site.wait_for_first_completion().await;
    let start = Instant::now();
    work_under_faults(plan, &mut site, folder.path()).await;
    site.end_faults().await;
    foreign.abort();
    let _ = foreign.await;
    let faults_took = start.elapsed();
    let start = Instant::now();
    let open = site.wait_until_completed().await;
    let completion_took = start.elapsed();
    let pauses = site.stop_workers().await;
    let history = History {
        pauses,
        rows: site.database.queue_rows().await,
        follow_ups: site.database.follow_ups().await,
        ..History::read(folder.path())
    };
    let mut violations = check(&history);
    if open > 0 {
        let text =
            format!("{open} items are not completed {completion_took:?} after the last fault");
        violations.push(Violation::new(Invariant::Progress, text));
    }
    let figures = Figures::new(&history, &site, [faults_took, completion_took]);
    eprintln!("{figures}violations           {}", violations.len());
    for violation in violations.iter().take(5) {
        eprintln!("{violation}");
    }
    let is_expected = plan.sabotage.is_some() || !plan.environment.is_empty();
    if !violations.is_empty() && !is_expected {
        folder.disable_cleanup(true);
        eprintln!(
            "chaos: journals and logs are in {}",
            folder.path().display()
        );
    }
    Some(violations)
}

/// Starts faults, or runs the statement of a sabotage, until the time of the plan is over.
async fn work_under_faults(plan: &Plan, site: &mut Site, folder: &Path) {
    let end = Instant::now() + plan.time;
    if let Some(statement) = plan.sabotage {
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let done = site.database.try_run(statement).await;
            done.expect("the statement runs");
        }
    }
    let Some(interval) = plan.fault_interval else {
        return tokio::time::sleep_until(end).await;
    };
    let shape = Shape {
        brokers: plan.brokers,
        workers: plan.workers,
        has_store_links: matches!(*site.database, Database::Mssql { .. }),
        lease: plan.lease,
    };
    let mut changes = version_changes(plan).into_iter().peekable();
    for (pause, fault) in schedule(plan.seed, shape, interval) {
        tokio::time::sleep_until(end.min(Instant::now() + pause)).await;
        if Instant::now() >= end {
            return;
        }
        let passed = (Instant::now() + plan.time).duration_since(end);
        if let Some((_, broker, program)) = changes.next_if(|(at, ..)| *at <= passed) {
            site.replace_broker(broker, &program).await;
        }
        site.start_fault(fault, folder).await;
    }
}

/// Returns the changes of the brokers' versions: the time, the broker and its new program. The brokers begin with the earlier
/// version. Then both versions run, then only the new one, then both, and at the end only the earlier one.
fn version_changes(plan: &Plan) -> Vec<(Duration, usize, PathBuf)> {
    let Some(earlier) = &plan.earlier else {
        return Vec::new();
    };
    let own = &plan.program;
    let steps = [(0, own), (1, own), (0, earlier), (1, earlier)];
    let change = |(number, (broker, program)): (u32, (usize, &PathBuf))| {
        (plan.time * number / 5, broker, program.to_owned())
    };
    (1..).zip(steps).map(change).collect()
}

/// Inserts rows by SQL, as a program does that does not know the broker.
async fn insert_rows(database: Arc<Database>, folder: PathBuf) {
    let journal = Journal::create(&journal_path(&folder, "foreign"));
    for number in 0.. {
        let payload = format!("foreign-{number}");
        let insert = format!("INSERT INTO work (payload) VALUES ('{payload}')");
        let call = journal.ask(Asked::Insert {
            payloads: vec![payload],
        });
        // If it fails, the answer stays unknown.
        if database.try_run(&insert).await.is_ok() {
            journal.answer(call, Answer::Inserted);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
