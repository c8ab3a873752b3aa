//! Baseline `direct`: the same load on a store in this process, without gRPC and without the broker. Each worker has
//! its own operations; there is no group commit.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::args::{LoadArgs, TargetArgs};
use super::key_set::ItemKey;
use super::process_stats::Watch;
use super::result::Result;
use super::run;
use super::samples::Measured;
use super::target_api::{
    Ending, Leases, Settled, TargetApi, WorkerId, from_states, item_key, new_item,
};
use super::temporary_queues::TemporaryQueues;
use crate::cli::CommandError;
use crate::lease_id::LeaseRef;
use crate::store::{self, ClaimCall, NewItem, QueueIndex, Renewal, Settlement, Store};

/// Lease duration without `--lease`, as in the default configuration of a queue.
const DEFAULT_LEASE: Duration = Duration::from_secs(60);
/// Pause between two reaps, and the most rows that one reap changes per queue.
const REAP_INTERVAL: Duration = Duration::from_millis(10);
const MAX_REAPED_ROWS: usize = 500;

/// Runs the load on a new store.
pub(super) async fn measure(load: &LoadArgs, args: &TargetArgs) -> Result<Measured> {
    let queues = TemporaryQueues::create(args)?;
    let store = queues.open_store(&queues.read_config()?)?;
    let open = |id: WorkerId| InProcessStore {
        store: store.clone(),
        queue: QueueIndex(id.queue),
        worker: id.name(),
        lease: load.lease.unwrap_or(DEFAULT_LEASE),
        item: new_item(&args.column, load.payload),
    };
    let watch = Watch::default();
    let measured = run::run("direct", load, args.queues, &watch, open);
    if load.fail > 0.0 {
        tokio::select! {
            measured = measured => measured,
            error = reap(&store, args.queues) => Err(error),
        }
    } else {
        measured.await
    }
}

/// Makes failed items ready again, which is a broker's task. Returns only if the store fails.
async fn reap(store: &Arc<dyn Store>, queues: usize) -> CommandError {
    loop {
        for queue in 0..queues {
            if let Err(error) = store.reap(QueueIndex(queue), MAX_REAPED_ROWS).await {
                return error.into();
            }
        }
        tokio::time::sleep(REAP_INTERVAL).await;
    }
}

/// One worker's operations of the store.
struct InProcessStore {
    store: Arc<dyn Store>,
    queue: QueueIndex,
    worker: String,
    lease: Duration,
    item: NewItem,
}

impl TargetApi for InProcessStore {
    type LeaseId = LeaseRef;

    /// Returns immediately: a claim can wait in the broker, but not in the store.
    async fn claim(
        &mut self,
        max_items: usize,
        _wait: Option<Duration>,
    ) -> Result<Leases<LeaseRef>> {
        let call = ClaimCall {
            worker: self.worker.clone(),
            token: Uuid::new_v4(),
            has_request_id: false,
            max_items,
            duration: self.lease,
        };
        let items = self.store.claim(self.queue, [call].into()).await?;
        let leases = items.into_iter().flatten().map(|item| {
            let key = item_key(&item.lease.key);
            (item.lease, key)
        });
        Ok(leases.collect())
    }

    async fn heartbeat(&mut self, leases: &Leases<LeaseRef>) -> Result<u64> {
        let renewal = |(lease, _): &(LeaseRef, _)| Renewal {
            lease: lease.clone(),
            duration: self.lease,
        };
        let renewals = leases.iter().map(renewal).collect();
        let extended = self.store.heartbeat(self.queue, renewals).await?;
        Ok(extended.iter().filter(|lease| lease.is_none()).count() as u64)
    }

    async fn settle(
        &mut self,
        ending: Ending,
        leases: Vec<LeaseRef>,
        next: Option<usize>,
    ) -> Result<(Vec<Settled>, Leases<LeaseRef>)> {
        let settlement = |lease| Settlement {
            lease,
            ending: match ending {
                Ending::Complete => store::Ending::Complete {
                    follow_ups: Vec::new(),
                },
                Ending::Fail => store::Ending::Fail {
                    error: String::new(),
                    retry: Some(Duration::ZERO),
                },
                Ending::Release => store::Ending::Release {
                    delay: Duration::ZERO,
                },
            },
        };
        let settlements = leases.into_iter().map(settlement).collect();
        let store = self.store.clone();
        let settle = store.settle(self.queue, settlements);
        let Some(max_items) = next else {
            return Ok((from_states(settle.await?), Vec::new()));
        };
        let (states, claimed) = tokio::join!(settle, self.claim(max_items, None));
        Ok((from_states(states?), claimed?))
    }

    async fn enqueue(&mut self, items: usize) -> Result<Vec<ItemKey>> {
        let items = vec![self.item.clone(); items];
        let keys = self.store.enqueue(self.queue, items.into()).await?;
        Ok(keys.iter().map(item_key).collect())
    }
}
