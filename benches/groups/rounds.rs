//! Rounds of claims and completions on two files in turns.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

use lease_broker_store::{ClaimCall, Ending, Leases as _, QueueIndex, Settled, Settlement};

use crate::file::File;

const QUEUE: QueueIndex = QueueIndex(0);
const LEASE: Duration = Duration::from_secs(600);
/// The number of rounds that warm the caches, which are not measured.
const WARM_UP: usize = 3;

/// The calls of a round.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    /// The number of calls that share an operation.
    pub(crate) width: usize,
    /// The items that each of them claims.
    pub(crate) batch: usize,
}

impl Calls {
    /// Returns the number of items of a round.
    pub(crate) const fn items(self) -> usize {
        self.width * self.batch
    }
}

impl Display for Calls {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { width, batch } = self;
        write!(formatter, "{width} × {batch}")
    }
}

/// The time of rounds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) processor: Duration,
}

/// Claims and completes `items` items on each file.
pub(crate) async fn compare(files: &[File; 2], calls: Calls, items: usize) -> [Cost; 2] {
    let mut costs = [Cost::default(); 2];
    for round in 0..WARM_UP + items.div_ceil(calls.items()) {
        for side in [round % 2, (round + 1) % 2] {
            let (wall, processor) = (Instant::now(), processor_time());
            claim_and_complete(&files[side], calls).await;
            if round >= WARM_UP {
                costs[side].wall += wall.elapsed();
                costs[side].processor += processor_time().saturating_sub(processor);
            }
        }
    }
    costs
}

async fn claim_and_complete(file: &File, calls: Calls) {
    let call = |_| ClaimCall {
        worker: "bench".to_owned(),
        token: Uuid::new_v4(),
        has_request_id: false,
        max_items: calls.batch,
        max_bytes: 4 << 20,
        duration: LEASE,
        groups: Vec::new(),
        max_run: file.max_run,
    };
    let claims: Arc<[ClaimCall]> = (0..calls.width).map(call).collect();
    let claimed = file.store.claim(QUEUE, claims, usize::MAX).await;
    let claimed = claimed.expect("claimed").into_iter();
    let completion = |item: lease_broker_store::ClaimedItem| {
        let follow_ups = Vec::new();
        Settlement::new(item.lease, Ending::Complete { follow_ups })
    };
    let leases = claimed.flat_map(|claimed| claimed.items);
    let completions: Arc<[Settlement]> = leases.map(completion).collect();
    assert_eq!(completions.len(), calls.items(), "too few items are ready");
    let settled = file.store.settle(QUEUE, completions).await;
    let results = settled.expect("settled").results;
    assert!(
        results
            .iter()
            .all(|result| matches!(result, Settled::Ended(_))),
        "a lease was lost"
    );
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
