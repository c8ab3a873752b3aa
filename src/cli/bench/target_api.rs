//! The operations that a load calls, at one of three layers of the service: gRPC, the broker below it, or the store
//! below the broker. Workers do the same at each layer, so the difference in speed is the cost of the layers above.

use std::time::Duration;

use super::key_set::ItemKey;
use super::result::Result;
use crate::item_state::State;
use crate::store::NewItem;
use crate::value::{Key, Value};

/// The way in which a worker settles leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Complete,
    /// Fail the items, to be tried again immediately.
    Fail,
    Release,
}

/// The result of settling one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Applied,
    /// Applied, and the item has no attempt left.
    Dead,
    /// The lease was lost, so the call changed nothing.
    Lost,
}

/// Leases with the keys of their items. `Id` is the layer's name for a lease.
pub(super) type Leases<Id> = Vec<(Id, ItemKey)>;

/// One worker's access to one queue.
pub(super) trait TargetApi: Send + 'static {
    /// The layer's name for a lease.
    type LeaseId: Send + Sync;

    /// Claims up to `max_items` items. `wait`: how long the claim may wait for an item.
    fn claim(
        &mut self,
        max_items: usize,
        wait: Option<Duration>,
    ) -> impl Future<Output = Result<Leases<Self::LeaseId>>> + Send;

    /// Extends leases. Returns how many of them were lost.
    fn heartbeat(
        &mut self,
        leases: &Leases<Self::LeaseId>,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Settles leases, and returns the results in the same order. With `Ending::Complete`, `next` also claims up to
    /// this number of items in the same call.
    fn settle(
        &mut self,
        ending: Ending,
        leases: Vec<Self::LeaseId>,
        next: Option<usize>,
    ) -> impl Future<Output = Result<(Vec<Settled>, Leases<Self::LeaseId>)>> + Send;

    /// Enqueues this number of equal items, and returns their keys.
    fn enqueue(&mut self, items: usize) -> impl Future<Output = Result<Vec<ItemKey>>> + Send;
}

/// A worker or a producer, and its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerId {
    /// Number of the worker. Producers are numbered after the workers.
    pub(super) worker: usize,
    /// Index of the queue in the list of queues under load.
    pub(super) queue: usize,
}

impl WorkerId {
    /// Returns the name under which the worker claims.
    pub(super) fn name(self) -> String {
        format!("bench-{}", self.worker + 1)
    }
}

/// Converts the result of the broker or the store: the item's new state, or `None` if the lease was lost.
pub(super) fn from_states(states: Vec<Option<State>>) -> Vec<Settled> {
    let settled = |state| match state {
        None => Settled::Lost,
        Some(State::Dead) => Settled::Dead,
        Some(_) => Settled::Applied,
    };
    states.into_iter().map(settled).collect()
}

/// Converts a key of the store.
pub(super) fn item_key(key: &Key) -> ItemKey {
    match &*key.0 {
        [Value::Int(integer)] if *integer >= 0 => ItemKey::Integer(integer.unsigned_abs()),
        _ => ItemKey::parse(&key.to_string()),
    }
}

/// Returns an item with this many bytes of text in its one column.
pub(super) fn new_item(column: &str, payload: usize) -> NewItem {
    NewItem {
        columns: vec![(column.to_owned(), Value::Text("x".repeat(payload)))],
        delay: Duration::ZERO,
        trace_parent: None,
    }
}
