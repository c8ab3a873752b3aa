//! A decorator of the T-SQL store that runs each operation in the context of the shared runtime.
//!
//! Callers can be on any runtime. The connections of the store belong to the shared one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{LeaseRef, Secret, SigningSecrets};
use lease_broker_store::mssql::MssqlStore;
use lease_broker_store::{
    CancelResults, Cancellation, CancelledLease, ClaimCall, Claimed, Concurrency, Database,
    EnqueueOnce, EnqueuedOnce, Facts, Inspect, Instance, ItemFacts, LatestTime, Leases, ListedItem,
    NewItem, PoolStatus, PurgeStep, Purged, QueueIndex, Reaped, ReleasedClaims, Renewal, Renewed,
    RetentionTurn, SettleResults, Settlement, Stats, StoreError, TraceNote, Upkeep,
};
use uuid::Uuid;

use super::runtime::shared;

/// A store, or a store that only reads.
pub(super) struct Shared<T>(pub(super) T);

#[async_trait]
impl<T: Inspect> Inspect for Shared<T> {
    fn parse_key(&self, queue: QueueIndex, text: &str) -> Result<Key, String> {
        self.0.parse_key(queue, text)
    }

    fn parse_group(&self, queue: QueueIndex, text: &str) -> Result<Key, String> {
        self.0.parse_group(queue, text)
    }

    async fn timed_stats(
        &self,
        queue: QueueIndex,
        within: Option<Duration>,
    ) -> Result<(Stats, Duration), StoreError> {
        shared(self.0.timed_stats(queue, within)).await
    }

    async fn exact_stats(&self, queue: QueueIndex) -> Result<Stats, StoreError> {
        shared(self.0.exact_stats(queue)).await
    }

    async fn list(
        &self,
        queue: QueueIndex,
        state: State,
        limit: usize,
    ) -> Result<Vec<ListedItem>, StoreError> {
        shared(self.0.list(queue, state, limit)).await
    }

    async fn item_facts(&self, queue: QueueIndex, key: Key) -> Result<ItemFacts, StoreError> {
        shared(self.0.item_facts(queue, key)).await
    }
}

#[async_trait]
impl Facts for Shared<MssqlStore> {
    fn secret(&self) -> &Secret {
        self.0.secret()
    }

    fn signing_secrets(&self) -> &Arc<SigningSecrets> {
        self.0.signing_secrets()
    }

    fn location(&self) -> String {
        self.0.location()
    }

    fn database(&self) -> Database {
        self.0.database()
    }

    fn pool_status(&self) -> PoolStatus {
        self.0.pool_status()
    }

    fn columns(&self, queue: QueueIndex) -> Arc<[String]> {
        self.0.columns(queue)
    }

    async fn example_item(
        &self,
        queue: QueueIndex,
    ) -> Result<Option<Vec<(String, String)>>, StoreError> {
        shared(self.0.example_item(queue)).await
    }
}

#[async_trait]
impl Leases for Shared<MssqlStore> {
    fn concurrency(&self) -> Concurrency {
        self.0.concurrency()
    }

    fn withdraw_waiting(&self) {
        self.0.withdraw_waiting();
    }

    async fn claim(
        &self,
        queue: QueueIndex,
        calls: Arc<[ClaimCall]>,
        max_bytes: usize,
    ) -> Result<Vec<Claimed>, StoreError> {
        shared(self.0.claim(queue, calls, max_bytes)).await
    }

    async fn heartbeat(
        &self,
        queue: QueueIndex,
        renewals: Arc<[Renewal]>,
    ) -> Result<Vec<Renewed>, StoreError> {
        shared(self.0.heartbeat(queue, renewals)).await
    }

    async fn settle(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<SettleResults, StoreError> {
        shared(self.0.settle(queue, settlements)).await
    }

    async fn release_claims(
        &self,
        queue: QueueIndex,
        tokens: Arc<[Uuid]>,
    ) -> Result<ReleasedClaims, StoreError> {
        shared(self.0.release_claims(queue, tokens)).await
    }

    async fn note_traces(
        &self,
        queue: QueueIndex,
        notes: Arc<[TraceNote]>,
    ) -> Result<(), StoreError> {
        shared(self.0.note_traces(queue, notes)).await
    }

    async fn find_expired_untraced(
        &self,
        queue: QueueIndex,
        limit: usize,
    ) -> Result<(Vec<LeaseRef>, i64), StoreError> {
        shared(self.0.find_expired_untraced(queue, limit)).await
    }

    async fn find_leased_untraced(
        &self,
        queue: QueueIndex,
        keys: Arc<[Key]>,
    ) -> Result<Vec<LeaseRef>, StoreError> {
        shared(self.0.find_leased_untraced(queue, keys)).await
    }

    async fn cancel(
        &self,
        queue: QueueIndex,
        leases: Arc<[CancelledLease]>,
        cancellation: Cancellation,
    ) -> Result<CancelResults, StoreError> {
        shared(self.0.cancel(queue, leases, cancellation)).await
    }

    async fn reap(
        &self,
        queue: QueueIndex,
        limit: usize,
        latest: Option<LatestTime>,
        until: Option<i64>,
    ) -> Result<Reaped, StoreError> {
        shared(self.0.reap(queue, limit, latest, until)).await
    }

    async fn enqueue(
        &self,
        queue: QueueIndex,
        items: Arc<[NewItem]>,
    ) -> Result<Vec<Key>, StoreError> {
        shared(self.0.enqueue(queue, items)).await
    }

    async fn enqueue_once(
        &self,
        queue: QueueIndex,
        request: Arc<EnqueueOnce>,
    ) -> Result<EnqueuedOnce, StoreError> {
        shared(self.0.enqueue_once(queue, request)).await
    }
}

#[async_trait]
impl Upkeep for Shared<MssqlStore> {
    async fn read_secrets(&self) -> Result<(), StoreError> {
        shared(self.0.read_secrets()).await
    }

    async fn rotate_secrets(&self, accept_old_for: Duration) -> Result<u8, StoreError> {
        shared(self.0.rotate_secrets(accept_old_for)).await
    }

    async fn forget_requests(&self, limit: usize) -> Result<usize, StoreError> {
        shared(self.0.forget_requests(limit)).await
    }

    async fn purge(&self, queue: QueueIndex, step: PurgeStep) -> Result<Purged, StoreError> {
        shared(self.0.purge(queue, step)).await
    }

    async fn purge_archive(
        &self,
        queue: QueueIndex,
        age: Duration,
        limit: usize,
        latest: Option<LatestTime>,
    ) -> Result<usize, StoreError> {
        shared(self.0.purge_archive(queue, age, limit, latest)).await
    }

    async fn count_old_archived(
        &self,
        queue: QueueIndex,
        age: Duration,
    ) -> Result<u64, StoreError> {
        shared(self.0.count_old_archived(queue, age)).await
    }

    async fn take_retention_turn(
        &self,
        queue: QueueIndex,
        broker: Uuid,
        duration: Duration,
    ) -> Result<RetentionTurn, StoreError> {
        shared(self.0.take_retention_turn(queue, broker, duration)).await
    }

    async fn announce(&self, instance: Arc<Instance>) -> Result<Vec<Instance>, StoreError> {
        shared(self.0.announce(instance)).await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        shared(self.0.probe()).await
    }
}
