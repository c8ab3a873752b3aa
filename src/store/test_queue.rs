//! The queue from which the tests of the stores, those with databases and the proof start. Each test changes the fields that it needs.

use std::time::Duration;

use lease_broker_model::group::QueueLimits;
use lease_broker_model::item_state::{Backoff, RetryPolicy, State};
use lease_broker_model::queue::{
    ClaimStrategy, KeepFor, LeaseBounds, Mirror, MirrorValue, OnComplete, Order, OrderColumn,
    QueueSpec, SoftLock,
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Returns a queue on `table`, in key order, that keeps completed rows. The soft-lock columns have their default names.
pub(crate) fn spec(table: &str) -> QueueSpec {
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

/// Returns an order by these columns. A column with the prefix `-` is descending.
pub(crate) fn by(columns: &[&str]) -> Order {
    let part = |&name: &&str| OrderColumn {
        column: name.trim_start_matches('-').to_owned(),
        descending: name.starts_with('-'),
    };
    Order::By(columns.iter().map(part).collect())
}

pub(crate) fn mirror(state: State, column: &str, value: MirrorValue) -> Mirror {
    Mirror {
        state,
        column: column.to_owned(),
        value,
    }
}
