//! Chaos: broker and worker processes behind a load balancer, under faults from a seed. A checker compares the journals of the
//! processes with the tables.
//!
//! The seed decides the faults and the choices of the workers. It does not decide how the processes interleave.

mod actor;
mod broker;
mod calls;
mod database;
mod figures;
mod history;
mod invariants;
mod journal;
mod plan;
mod run;
mod sabotage;
mod schedule;
mod site;

use self::database::Kind;
use self::plan::Plan;
use self::run::run;

async fn assert_no_violation(store: Kind) {
    if let Some(violations) = run(&Plan::short(store)).await {
        assert!(violations.is_empty(), "{} violations", violations.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_loses_and_repeats_nothing_under_faults() {
    assert_no_violation(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_server_loses_and_repeats_nothing_under_faults() {
    assert_no_violation(Kind::Mssql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_brokers_lose_and_repeat_nothing_under_faults() {
    let plan = Plan {
        brokers: 3,
        ..Plan::short(Kind::Sqlite)
    };
    if let Some(violations) = run(&plan).await {
        assert!(violations.is_empty(), "{} violations", violations.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_versions_lose_and_repeat_nothing_under_faults() {
    let Some(earlier) = crate::support::earlier_program::earlier_program() else {
        return;
    };
    let plan = Plan {
        earlier: Some(earlier),
        ..Plan::short(Kind::Sqlite)
    };
    if let Some(violations) = run(&plan).await {
        assert!(violations.is_empty(), "{} violations", violations.len());
    }
}
