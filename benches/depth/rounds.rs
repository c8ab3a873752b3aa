//! One round of each operation. Its preparation is not part of the measured time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use lease_broker_model::lease_id::LeaseRef;
use lease_broker_store::{
    ClaimCall, Ending, Leases as _, NewItem, QueueIndex, Renewal, Settled, Settlement, Store as _,
};
use lease_broker_value::Value;

use crate::file::File;

const QUEUE: QueueIndex = QueueIndex(0);
const LEASE: Duration = Duration::from_secs(600);
const BATCH: usize = 100;
/// The most rows that one reap changes.
const MAX_REAPED: usize = 1_000;

#[derive(Clone, Copy)]
pub(crate) enum Operation {
    Stats,
    Claim(usize),
    Heartbeat,
    Settle,
    ReapNothing,
    Reap,
    Enqueue,
}

/// The operations in the order of their measurement. `Stats` is first, because the others change the tables. Completed
/// items are replaced by new ones, so that the number of ready items stays the same.
pub(crate) const OPERATIONS: [(&str, Operation); 8] = [
    ("stats", Operation::Stats),
    ("claim 1", Operation::Claim(1)),
    ("claim 100", Operation::Claim(BATCH)),
    ("heartbeat 100", Operation::Heartbeat),
    ("complete 100", Operation::Settle),
    ("reap, nothing due", Operation::ReapNothing),
    ("reap 100", Operation::Reap),
    ("enqueue 100", Operation::Enqueue),
];

impl Operation {
    /// Runs the operation once and returns the time that it took.
    pub(crate) async fn run(self, file: &File) -> Duration {
        let store = &file.store;
        match self {
            Self::Stats => {
                let start = Instant::now();
                store.reads().stats(QUEUE).await.expect("stats");
                start.elapsed()
            }
            Self::Claim(count) => {
                let (leases, time) = claim(file, count).await;
                complete(file, &leases).await;
                enqueue(file, count).await;
                time
            }
            Self::Heartbeat => {
                let (leases, _) = claim(file, BATCH).await;
                let renewal = |lease: &LeaseRef| Renewal::new(lease.clone(), LEASE);
                let renewals: Arc<[Renewal]> = leases.iter().map(renewal).collect();
                let start = Instant::now();
                let held = store.heartbeat(QUEUE, renewals).await.expect("held");
                let time = start.elapsed();
                assert!(
                    held.iter().all(|renewed| renewed.expiry().is_some()),
                    "a lease was lost"
                );
                complete(file, &leases).await;
                enqueue(file, BATCH).await;
                time
            }
            Self::Settle => {
                let (leases, _) = claim(file, BATCH).await;
                let time = complete(file, &leases).await;
                enqueue(file, BATCH).await;
                time
            }
            Self::ReapNothing => reap(file, 0).await,
            Self::Reap => {
                claim(file, BATCH).await;
                file.expire();
                reap(file, BATCH).await
            }
            Self::Enqueue => enqueue(file, BATCH).await,
        }
    }
}

async fn claim(file: &File, count: usize) -> (Vec<LeaseRef>, Duration) {
    let call = ClaimCall {
        worker: "bench".to_owned(),
        token: Uuid::new_v4(),
        has_request_id: false,
        max_items: count,
        max_bytes: 4 << 20,
        duration: LEASE,
        groups: Vec::new(),
        max_run: 1,
    };
    let start = Instant::now();
    let claimed = file.store.claim(QUEUE, [call].into(), usize::MAX).await;
    let time = start.elapsed();
    let items = claimed.expect("claimed").into_iter();
    let items = items.flat_map(|claimed| claimed.items);
    let leases: Vec<LeaseRef> = items.map(|item| item.lease).collect();
    assert_eq!(leases.len(), count, "the table has too few ready items");
    (leases, time)
}

async fn complete(file: &File, leases: &[LeaseRef]) -> Duration {
    let completion = |lease: &LeaseRef| {
        Settlement::new(
            lease.clone(),
            Ending::Complete {
                follow_ups: Vec::new(),
            },
        )
    };
    let completions: Arc<[Settlement]> = leases.iter().map(completion).collect();
    let start = Instant::now();
    let states = file.store.settle(QUEUE, completions).await;
    let time = start.elapsed();
    let states = states.expect("settled").results;
    assert!(
        states
            .iter()
            .all(|result| matches!(result, Settled::Ended(_))),
        "a lease was lost"
    );
    time
}

async fn reap(file: &File, expected: usize) -> Duration {
    let start = Instant::now();
    let reaped = file
        .store
        .reap(QUEUE, MAX_REAPED, None)
        .await
        .expect("reaped");
    let time = start.elapsed();
    assert_eq!(reaped.expired.len(), expected);
    time
}

async fn enqueue(file: &File, count: usize) -> Duration {
    let item = NewItem {
        columns: vec![("payload".to_owned(), Value::Text("x".repeat(100)))],
        delay: Duration::ZERO,
        trace_parent: None,
    };
    let items: Arc<[NewItem]> = vec![item; count].into();
    let start = Instant::now();
    let keys = file.store.enqueue(QUEUE, items).await.expect("added");
    let time = start.elapsed();
    assert_eq!(keys.len(), count);
    time
}
