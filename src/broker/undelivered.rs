//! Leases that the store has given and that no worker has received yet.
//!
//! A caller can go away at any time between the store's answer and the response. The leases that it would have received
//! must be released. Otherwise their items would stay leased, with no worker, until the leases expire. Three places
//! release leases:
//!
//! | case | released by |
//! |---|---|
//! | The claim failed because the store became unhealthy, and the store leases the items later. | `release_late_leases` in `fail_fast_store.rs` |
//! | The caller is gone when the claim dispatcher answers its claim. | `release_abandoned` in `claim_dispatcher.rs` |
//! | The caller goes away after that, or the response has no room for all leases. | the `Drop` of [`UndeliveredLeases`] |
//!
//! The leases of a call with a request id may be needed when that call is sent again. The first place always keeps
//! them. The second keeps them only if the call has already been sent again. The third does not keep them.

use std::sync::Arc;
use std::time::Duration;

use super::group_commit::GroupCommit;
use crate::lease_id::Secret;
use crate::store::{ClaimedItem, Ending, Settled, Settlement};

/// Leases of one claim until its worker receives them. Those that are dropped are released at once, in the background.
pub struct UndeliveredLeases {
    items: Vec<ClaimedItem>,
    queue: Arc<LeasedQueue>,
}

/// The parts of a queue that its leases need on their way to a worker.
pub(super) struct LeasedQueue {
    /// The queue's name.
    pub(super) name: String,
    /// The names of the columns that workers receive.
    pub(super) columns: Arc<[String]>,
    /// The secret that signs lease ids.
    pub(super) secret: Secret,
    /// The group commit that releases leases.
    pub(super) settlements: GroupCommit<Settlement, Settled>,
}

/// A lease that its worker receives.
pub struct DeliveredLease {
    /// The lease id, which the worker sends to extend or settle the lease.
    pub id: String,
    /// The lease and its item.
    pub item: ClaimedItem,
}

impl UndeliveredLeases {
    pub(super) fn new(items: Vec<ClaimedItem>, queue: Arc<LeasedQueue>) -> Self {
        Self { items, queue }
    }

    /// Returns the leases without delivering them.
    pub fn items(&self) -> &[ClaimedItem] {
        &self.items
    }

    /// Returns the names of the columns in [`ClaimedItem::columns`].
    pub fn columns(&self) -> Arc<[String]> {
        self.queue.columns.clone()
    }

    /// Delivers the first `max` leases and releases the others. The broker does not release a delivered lease any more.
    pub fn deliver(mut self, max: usize) -> impl Iterator<Item = DeliveredLease> {
        let rest = self.items.split_off(max.min(self.items.len()));
        let delivered = std::mem::replace(&mut self.items, rest);
        let queue = self.queue.clone();
        delivered.into_iter().map(move |item| DeliveredLease {
            id: item.lease.encode(&queue.secret, &queue.name),
            item,
        })
    }

    /// Takes the leases out, so that they are not released.
    pub(super) fn into_items(mut self) -> Vec<ClaimedItem> {
        std::mem::take(&mut self.items)
    }
}

impl Drop for UndeliveredLeases {
    fn drop(&mut self) {
        let undelivered = std::mem::take(&mut self.items);
        let settlements = &self.queue.settlements;
        settlements.submit_detached(releases_of(undelivered));
    }
}

/// Returns the settlements that release the leases without a delay.
pub(super) fn releases_of(items: Vec<ClaimedItem>) -> Vec<Settlement> {
    let releases = items.into_iter().map(|item| Settlement {
        lease: item.lease,
        ending: Ending::Release {
            delay: Duration::ZERO,
        },
    });
    releases.collect()
}
