//! The load on the store itself: no gRPC, no group commit, each worker with operations of its own.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::broker::settled;
use super::{Ending, Layer, Place, Terms};
use crate::cli::CommandError;
use crate::cli::bench::keys::ItemKey;
use crate::cli::bench::ledger::Settled;
use crate::lease_id::LeaseRef;
use crate::store::{self, ClaimCall, NewItem, QueueIndex, Renewal, Settlement, Store};
use crate::value::{Key, Value};

/// How long leases last unless something else is said, as a queue has it by default.
const LEASE: Duration = Duration::from_secs(60);

/// One worker's operations.
#[derive(Clone)]
pub(in crate::cli::bench) struct OnStore {
    store: Arc<dyn Store>,
    queue: QueueIndex,
    worker: String,
    lease: Duration,
    item: NewItem,
}

impl OnStore {
    pub(in crate::cli::bench) fn new(store: Arc<dyn Store>, place: Place, terms: &Terms) -> Self {
        Self {
            store,
            queue: QueueIndex(place.queue),
            worker: place.worker_id(),
            lease: terms.lease.unwrap_or(LEASE),
            item: new_item(terms),
        }
    }
}

impl Layer for OnStore {
    type Lease = LeaseRef;

    fn key(lease: &LeaseRef) -> ItemKey {
        item_key(&lease.key)
    }

    async fn claim(&mut self, max_items: usize) -> Result<Vec<LeaseRef>, CommandError> {
        let call = ClaimCall {
            worker: self.worker.clone(),
            token: Uuid::new_v4(),
            has_request_id: false,
            max_items,
            duration: self.lease,
        };
        let lists = self.store.claim(self.queue, [call].into()).await?;
        let items = lists.into_iter().flatten();
        Ok(items.map(|item| item.lease).collect())
    }

    async fn heartbeat(&mut self, leases: &[LeaseRef]) -> Result<u64, CommandError> {
        let renewal = |lease: &LeaseRef| Renewal {
            lease: lease.clone(),
            duration: self.lease,
        };
        let renewals = leases.iter().map(renewal).collect();
        let held = self.store.heartbeat(self.queue, renewals).await?;
        Ok(held.iter().filter(|held| held.is_none()).count() as u64)
    }

    async fn settle(
        &mut self,
        ending: Ending,
        leases: &[LeaseRef],
    ) -> Result<Vec<Settled>, CommandError> {
        let settlement = |lease: &LeaseRef| Settlement {
            lease: lease.clone(),
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
        let settlements = leases.iter().map(settlement).collect();
        let states = self.store.settle(self.queue, settlements).await?;
        let states = states.into_iter();
        Ok(states.map(|state| settled(ending, state)).collect())
    }

    async fn complete_and_claim(
        &mut self,
        leases: &[LeaseRef],
        max_items: usize,
    ) -> Result<(Vec<Settled>, Vec<LeaseRef>), CommandError> {
        let mut claiming = self.clone();
        let settle = self.settle(Ending::Complete, leases);
        let (settled, claimed) = tokio::join!(settle, claiming.claim(max_items));
        Ok((settled?, claimed?))
    }

    async fn enqueue(&mut self, items: usize) -> Result<Vec<ItemKey>, CommandError> {
        let items = vec![self.item.clone(); items];
        let keys = self.store.enqueue(self.queue, items.into()).await?;
        Ok(keys.iter().map(item_key).collect())
    }
}

/// Returns what is added each time.
pub(super) fn new_item(terms: &Terms) -> NewItem {
    NewItem {
        columns: vec![(terms.column.clone(), Value::Text(terms.payload.clone()))],
        delay: Duration::ZERO,
        trace_parent: None,
    }
}

pub(super) fn item_key(key: &Key) -> ItemKey {
    match &*key.0 {
        [Value::Int(number)] if *number >= 0 => ItemKey::Number(number.unsigned_abs()),
        _ => ItemKey::of_text(key.to_string().as_bytes()),
    }
}
