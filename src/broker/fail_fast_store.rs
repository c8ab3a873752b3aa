//! The store as the broker's parts see it: an operation of a store that does not answer fails at once, and not only after
//! a time-out of its own.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::operation_metrics::{Operation, OperationMetrics};
use super::store_health::StoreHealth;
use super::undelivered::releases_of;
use crate::lease::State;
use crate::lease_id::Secret;
use crate::store::{
    ClaimCall, ClaimedItem, Extension, Held, ListedItem, NewItem, QueueIndex, Reaped, Settlement,
    Stats, Store, StoreError,
};
use crate::value::Key;

/// A claim under way.
type ClaimFuture = BoxFuture<'static, Result<Vec<Vec<ClaimedItem>>, StoreError>>;

/// Waits for a claim that nobody waits for any more, and releases what it gets: the worker was told that there is nothing.
/// The leases of a request id stay: it is sent again.
async fn give_back(
    store: Arc<dyn Store>,
    queue: QueueIndex,
    calls: Arc<[ClaimCall]>,
    claim: ClaimFuture,
) {
    let Ok(lists) = claim.await else {
        return;
    };
    let nobodys = calls.iter().zip(lists).filter(|(call, _)| !call.repeat);
    let nobodys: Vec<ClaimedItem> = nobodys.flat_map(|(_, items)| items).collect();
    if !nobodys.is_empty() {
        // If it fails they expire.
        let _ = store.settle(queue, releases_of(nobodys).into()).await;
    }
}

/// A store under the watch of a [`StoreHealth`].
pub(super) struct FailFastStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) pulse: Arc<StoreHealth>,
    pub(super) counts: Arc<OperationMetrics>,
}

impl FailFastStore {
    /// Runs an operation while the store answers, and counts it with what it carried.
    async fn run<T>(
        &self,
        operation: Operation,
        work: impl Future<Output = Result<T, StoreError>> + Send,
        items: impl FnOnce(&T) -> usize + Send,
    ) -> Result<T, StoreError> {
        self.counts.statement(operation);
        let outcome = self.pulse.guard(work).await;
        if let Ok(outcome) = &outcome {
            self.counts.items(operation, items(outcome));
        }
        outcome
    }
}

#[async_trait]
impl Store for FailFastStore {
    fn secret(&self) -> &Secret {
        self.store.secret()
    }

    fn place(&self) -> String {
        self.store.place()
    }

    fn width(&self) -> usize {
        self.store.width()
    }

    fn columns(&self, queue: QueueIndex) -> Arc<[String]> {
        self.store.columns(queue)
    }

    async fn claim(
        &self,
        queue: QueueIndex,
        calls: Arc<[ClaimCall]>,
    ) -> Result<Vec<Vec<ClaimedItem>>, StoreError> {
        // None while the store is away: nothing is asked of it.
        let mut under_way: Option<ClaimFuture> = None;
        let claimed = async {
            let (store, calls) = (self.store.clone(), calls.clone());
            let claim = async move { store.claim(queue, calls).await }.boxed();
            let outcome = under_way.insert(claim).await;
            under_way = None;
            outcome
        };
        let leases = |lists: &Vec<Vec<ClaimedItem>>| lists.iter().map(Vec::len).sum();
        let outcome = self.run(Operation::Claim, claimed, leases).await;
        if let Some(claim) = under_way {
            tokio::spawn(give_back(self.store.clone(), queue, calls, claim));
        }
        outcome
    }

    async fn heartbeat(
        &self,
        queue: QueueIndex,
        extensions: Arc<[Extension]>,
    ) -> Result<Vec<Option<Held>>, StoreError> {
        let extended = self.store.heartbeat(queue, extensions);
        self.run(Operation::Heartbeat, extended, Vec::len).await
    }

    async fn settle(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<Vec<Option<State>>, StoreError> {
        let settled = self.store.settle(queue, settlements);
        self.run(Operation::Settle, settled, Vec::len).await
    }

    async fn reap(&self, queue: QueueIndex, limit: usize) -> Result<Reaped, StoreError> {
        let reaped = self.store.reap(queue, limit);
        let items = |reaped: &Reaped| reaped.expired.len() + reaped.promoted;
        self.run(Operation::Reap, reaped, items).await
    }

    async fn enqueue(
        &self,
        queue: QueueIndex,
        items: Arc<[NewItem]>,
    ) -> Result<Vec<Key>, StoreError> {
        let added = self.store.enqueue(queue, items);
        self.run(Operation::Enqueue, added, Vec::len).await
    }

    async fn stats(&self, queue: QueueIndex) -> Result<Stats, StoreError> {
        let stats = self.store.stats(queue);
        self.run(Operation::Other, stats, |_| 0).await
    }

    async fn exact_stats(&self, queue: QueueIndex) -> Result<Stats, StoreError> {
        let stats = self.store.exact_stats(queue);
        self.run(Operation::Other, stats, |_| 0).await
    }

    async fn list(
        &self,
        queue: QueueIndex,
        state: State,
        limit: usize,
    ) -> Result<Vec<ListedItem>, StoreError> {
        let listed = self.store.list(queue, state, limit);
        self.run(Operation::Other, listed, Vec::len).await
    }

    async fn redrive(&self, queue: QueueIndex, limit: usize) -> Result<usize, StoreError> {
        let redriven = self.store.redrive(queue, limit);
        self.run(Operation::Other, redriven, |items| *items).await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        self.store.probe().await
    }
}
