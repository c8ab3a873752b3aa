//! The details of errors that a test expects. Each function panics if the operation succeeded or failed in another way.

use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{Outage, Rejection, StoreError};

use super::Harness;

#[track_caller]
pub(crate) fn rejected<T>(result: Result<T, StoreError>) -> Rejection {
    match result.map(drop) {
        Err(StoreError::Rejected(rejection)) => rejection,
        other => panic!("not rejected: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn unavailable<T>(result: Result<T, StoreError>) -> Outage {
    match result.map(drop) {
        Err(StoreError::Unavailable(outage)) => outage,
        other => panic!("not unavailable: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn misconfigured<T>(result: Result<T, StoreError>) -> String {
    match result.map(drop) {
        Err(StoreError::Misconfigured(text)) => text,
        other => panic!("not misconfigured: {other:?}"),
    }
}

/// Returns the problems of a queue that must be refused. A check and a broker must report the same problems.
pub(crate) async fn problems<H: Harness>(harness: &H, spec: &QueueSpec) -> Vec<String> {
    let problems = harness.check(spec).await.expect("check");
    let text = misconfigured(harness.open(std::slice::from_ref(spec)).await);
    let (listed, remedy) = text.split_once('\n').unwrap_or((&text, ""));
    assert_eq!(listed, problems.join("; "));
    // The commands are named only where they help.
    let lacks_parts = problems
        .iter()
        .any(|problem| problem.contains(" lacks the "));
    assert_eq!(remedy.contains("`lease-broker schema apply`"), lacks_parts);
    problems
}
