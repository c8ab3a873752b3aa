//! Tests of the checker: promises that are broken on purpose are found.

use crate::chaos::invariants::{Invariant, Violation};
use crate::chaos::plan::Plan;
use crate::chaos::run::run;

fn count(violations: &[Violation], invariant: Invariant) -> usize {
    let found = violations
        .iter()
        .filter(|violation| violation.invariant == invariant);
    found.count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_that_another_program_takes_away_is_found() {
    let sabotage = "UPDATE work SET lease_state = 0, lease_due_time = NULL
        WHERE id = (SELECT MIN(id) FROM work WHERE lease_state = 1)";
    let plan = Plan {
        // Many leases are held for long, and the item goes to another worker meanwhile.
        late: 0.3,
        ..Plan::sabotaged_by(sabotage)
    };
    if let Some(violations) = run(&plan).await {
        assert!(count(&violations, Invariant::NoOverlap) > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completed_item_that_becomes_ready_again_is_found() {
    let sabotage = "UPDATE work SET lease_state = 0 WHERE id = (SELECT MAX(id) FROM work WHERE lease_state = 3)";
    if let Some(violations) = run(&Plan::sabotaged_by(sabotage)).await {
        assert!(count(&violations, Invariant::CompletedOnce) > 0);
        assert!(count(&violations, Invariant::FollowUps) > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_follow_up_is_found() {
    let sabotage = "DELETE FROM outbox WHERE id = (SELECT MIN(id) FROM outbox)";
    if let Some(violations) = run(&Plan::sabotaged_by(sabotage)).await {
        assert!(!violations.is_empty());
        assert_eq!(count(&violations, Invariant::FollowUps), violations.len());
    }
}

/// Brokers that break a promise.
mod brokers {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::chaos::database::Kind;

    /// Runs brokers that break a promise, with many late workers.
    async fn broken_brokers(sabotage: &str) -> Option<Vec<Violation>> {
        let plan = Plan {
            fault_interval: None,
            time: Duration::from_secs(8),
            late: 0.3,
            program: Path::new(env!("CARGO_BIN_EXE_lease-broker"))
                .with_file_name("examples/broken-broker"),
            environment: vec![("BROKEN_BROKER_SABOTAGE", sabotage.to_owned())],
            ..Plan::short(Kind::Sqlite)
        };
        run(&plan).await
    }

    /// Runs them until a violation of this promise is found. On a machine that stalls, a run can have too few late calls.
    async fn expect_found(sabotage: &str, invariant: Invariant) {
        for _ in 0..3 {
            let Some(violations) = broken_brokers(sabotage).await else {
                return;
            };
            if count(&violations, invariant) > 0 {
                return;
            }
        }
        panic!("{sabotage} was not found");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn settlement_without_a_fence_is_found() {
        expect_found("settle_without_fence", Invariant::LateIsRefused).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn heartbeat_without_a_check_is_found() {
        expect_found("heartbeat_without_check", Invariant::LateIsRefused).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn dropped_follow_ups_are_found() {
        expect_found("drop_follow_ups", Invariant::FollowUps).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn broker_without_a_sabotage_keeps_every_promise() {
        if let Some(violations) = broken_brokers("").await {
            assert!(violations.is_empty(), "{} violations", violations.len());
        }
    }
}
