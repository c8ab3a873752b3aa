//! Chaos: broker and worker processes behind a load balancer, under faults from a seed. A checker compares the journals of the
//! processes with the tables.
//!
//! The seed decides the faults and the choices of the workers. It does not decide how the processes interleave.

#[path = "harness/harness.rs"]
mod harness;
#[path = "support/skipped.rs"]
mod skipped;
mod support;

#[path = "balancers/balancer.rs"]
#[allow(dead_code, reason = "nginx is for another target")]
mod balancer;
#[path = "upgrades/earlier_program.rs"]
mod earlier_program;
#[path = "balancers/fleet.rs"]
#[allow(dead_code, reason = "the brokers of this target are started otherwise")]
mod fleet;
#[path = "sql_server/program.rs"]
#[allow(dead_code, reason = "another target uses the rest")]
mod program;
#[path = "sql_server/proxy.rs"]
#[allow(dead_code, reason = "another target uses the rest")]
mod proxy;

#[path = "chaos/actor.rs"]
mod actor;
#[path = "chaos/broker.rs"]
mod broker;
#[path = "chaos/calls.rs"]
mod calls;
#[path = "chaos/database.rs"]
mod database;
#[path = "chaos/figures.rs"]
mod figures;
#[path = "chaos/history.rs"]
mod history;
#[path = "chaos/invariants.rs"]
mod invariants;
#[path = "chaos/journal.rs"]
mod journal;
#[path = "chaos/plan.rs"]
mod plan;
#[path = "chaos/run.rs"]
mod run;
#[path = "chaos/sabotage.rs"]
mod sabotage;
#[path = "chaos/schedule.rs"]
mod schedule;
#[path = "chaos/site.rs"]
mod site;

use database::Kind;
use plan::Plan;
use run::run;

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
    let Some(earlier) = earlier_program::earlier_program() else {
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
