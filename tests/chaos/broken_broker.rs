//! A broker that breaks a promise. The tests of `sabotage.rs` run it, to prove that the checker finds each broken promise.
//!
//! The environment variable `BROKEN_BROKER_SABOTAGE` chooses the promise. Without it the program keeps every promise. It has the
//! command line of `lease-broker`, and works on a SQLite file with the default names of the soft-lock columns.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use lease_broker::cli::{Cli, start};
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_store::{
    CancelResults, Cancellation, CancelledLease, ClaimCall, Claimed, Concurrency, Ending,
    EnqueueOnce, EnqueuedOnce, LatestTime, Leases, NewItem, QueueIndex, Reaped, ReleasedClaims,
    Renewal, Renewed, SettleResults, Settlement, Store, StoreError,
};
use uuid::Uuid;

/// A promise to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    /// A settlement ends the lease on its item, whichever lease that is.
    SettleWithoutFence,
    /// A heartbeat extends the lease on its item, whichever lease that is.
    HeartbeatWithoutCheck,
    /// A completion adds no follow-ups.
    DropFollowUps,
}

impl Sabotage {
    fn chosen() -> Option<Self> {
        match std::env::var("BROKEN_BROKER_SABOTAGE").as_deref() {
            Ok("settle_without_fence") => Some(Self::SettleWithoutFence),
            Ok("heartbeat_without_check") => Some(Self::HeartbeatWithoutCheck),
            Ok("drop_follow_ups") => Some(Self::DropFollowUps),
            _ => None,
        }
    }
}

fn main() -> ExitCode {
    start("broken-broker", |cli: Cli| {
        cli.run_with(|store| match Sabotage::chosen() {
            None => store,
            Some(sabotage) => Arc::new(BrokenLeases { store, sabotage }),
        })
    })
}

struct BrokenLeases {
    store: Arc<dyn Store>,
    sabotage: Sabotage,
}

impl BrokenLeases {
    /// Gives a lease the proofs of the lease that its item has now.
    fn forge(&self, lease: &mut LeaseRef) {
        let file =
            rusqlite::Connection::open(self.store.location()).expect("the file of the store");
        let row = file.query_row(
            "SELECT lease_token, lease_fence FROM work WHERE id = ?1 AND lease_state = 1",
            [lease.key.to_string()],
            |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?)),
        );
        // An item that is not leased now keeps the proofs of its old lease.
        if let Ok((token, fence)) = row {
            lease.token = Uuid::from_slice(&token).expect("a token has 16 bytes");
            lease.fence = fence;
        }
    }
}

#[async_trait]
impl Leases for BrokenLeases {
    async fn heartbeat(
        &self,
        queue: QueueIndex,
        renewals: Arc<[Renewal]>,
    ) -> Result<Vec<Renewed>, StoreError> {
        let mut renewals = renewals.to_vec();
        if self.sabotage == Sabotage::HeartbeatWithoutCheck {
            for renewal in &mut renewals {
                self.forge(&mut renewal.lease);
            }
        }
        self.store.heartbeat(queue, renewals.into()).await
    }

    async fn settle(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<SettleResults, StoreError> {
        let mut settlements = settlements.to_vec();
        for settlement in &mut settlements {
            match (self.sabotage, &mut settlement.ending) {
                (Sabotage::SettleWithoutFence, _) => self.forge(&mut settlement.lease),
                (Sabotage::DropFollowUps, Ending::Complete { follow_ups }) => follow_ups.clear(),
                _ => {}
            }
        }
        self.store.settle(queue, settlements.into()).await
    }

    fn concurrency(&self) -> Concurrency {
        self.store.concurrency()
    }

    fn withdraw_waiting(&self) {
        self.store.withdraw_waiting();
    }

    async fn claim(
        &self,
        queue: QueueIndex,
        calls: Arc<[ClaimCall]>,
        max_bytes: usize,
    ) -> Result<Vec<Claimed>, StoreError> {
        self.store.claim(queue, calls, max_bytes).await
    }

    async fn release_claims(
        &self,
        queue: QueueIndex,
        tokens: Arc<[Uuid]>,
    ) -> Result<ReleasedClaims, StoreError> {
        self.store.release_claims(queue, tokens).await
    }

    async fn cancel(
        &self,
        queue: QueueIndex,
        leases: Arc<[CancelledLease]>,
        cancellation: Cancellation,
    ) -> Result<CancelResults, StoreError> {
        self.store.cancel(queue, leases, cancellation).await
    }

    async fn reap(
        &self,
        queue: QueueIndex,
        limit: usize,
        latest: Option<LatestTime>,
    ) -> Result<Reaped, StoreError> {
        self.store.reap(queue, limit, latest).await
    }

    async fn enqueue(
        &self,
        queue: QueueIndex,
        items: Arc<[NewItem]>,
    ) -> Result<Vec<Key>, StoreError> {
        self.store.enqueue(queue, items).await
    }

    async fn enqueue_once(
        &self,
        queue: QueueIndex,
        request: Arc<EnqueueOnce>,
    ) -> Result<EnqueuedOnce, StoreError> {
        self.store.enqueue_once(queue, request).await
    }
}
