//! Tests of the SQL Server store that need its private parts: snapshots of the rendered statements, the query plans
//! that a server chooses for them, adoption on editions that write every row when they add a column, and properties of tables
//! that only SQL Server has.

mod catalogue;
mod editions;
mod hint_rules;
mod query_plans;
mod snapshots;

use std::io::Write as _;
use std::time::Duration;

use lease_broker_model::group::QueueLimits;
use lease_broker_model::item_state::{Backoff, RetryPolicy};
use lease_broker_model::queue::{
    ClaimStrategy, KeepFor, LeaseBounds, OnComplete, Order, QueueSpec, SoftLock,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns the connection string of the server for tests. Without one, writes a line that says why the test is skipped. The line
/// does not go through `eprintln!`, which the test runner hides if the test passes.
pub(super) fn test_server() -> Option<String> {
    let server = std::env::var("LEASE_BROKER_TEST_MSSQL").ok();
    if server.is_none() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("unknown");
        let line = format!("skipped: test {test}: LEASE_BROKER_TEST_MSSQL is not set\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    server
}

/// Returns a queue on `table`, in key order, that keeps completed rows. The soft-lock columns have their default names.
pub(super) fn spec(table: &str) -> QueueSpec {
    QueueSpec {
        name: "items".to_owned(),
        table: table.to_owned(),
        key: Vec::new(),
        columns: None,
        order: Order::By(Vec::new()),
        lease: LeaseBounds {
            default: MINUTE,
            min: MINUTE,
            max: MINUTE,
        },
        retry: RetryPolicy {
            max_attempts: None,
            backoff: Backoff {
                initial: MINUTE,
                factor: 1.0,
                max: MINUTE,
                jitter: 0.0,
            },
        },
        groups: None,
        limits: QueueLimits::default(),
        on_complete: OnComplete::Keep,
        soft_lock: SoftLock::default(),
        writable: Vec::new(),
        filterable: Vec::new(),
        max_checkpoint_bytes: None,
        mirror: Vec::new(),
        managed_columns: None,
        filtered_indexes: true,
        completed_index: false,
        claim_strategy: ClaimStrategy::SkipLocked,
        max_lease_age: None,
        max_item_bytes: 64 << 20,
        max_response_bytes: 4 << 20,
        enqueue_memory: Duration::from_secs(86_400),
        keep_for: KeepFor::default(),
        allows_purge: true,
    }
}
