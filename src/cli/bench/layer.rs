//! A layer of the service that takes a load: gRPC, the broker below it, or the store below that. What a worker does is
//! the same on each, so that the difference is what a layer costs.

pub(super) mod broker;
pub(super) mod grpc;
pub(super) mod store;

use std::time::Duration;

use super::keys::ItemKey;
use super::ledger::Settled;
use crate::cli::CommandError;

/// How a worker ends leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Complete,
    /// To be tried again at once.
    Fail,
    Release,
}

/// One worker's access to one queue.
pub(super) trait Layer: Send + 'static {
    /// A lease, as this layer names it.
    type Lease: Send + Sync;

    /// Returns the key of a lease's item.
    fn key(lease: &Self::Lease) -> ItemKey;

    /// Claims up to `max_items` items.
    fn claim(
        &mut self,
        max_items: usize,
    ) -> impl Future<Output = Result<Vec<Self::Lease>, CommandError>> + Send;

    /// Extends leases, and returns how many were lost.
    fn heartbeat(
        &mut self,
        leases: &[Self::Lease],
    ) -> impl Future<Output = Result<u64, CommandError>> + Send;

    /// Ends leases, and returns what became of each, in their order.
    fn settle(
        &mut self,
        ending: Ending,
        leases: &[Self::Lease],
    ) -> impl Future<Output = Result<Vec<Settled>, CommandError>> + Send;

    /// Completes leases and claims up to `max_items` items in one call; returns what became of each lease, and what was
    /// claimed.
    fn complete_and_claim(
        &mut self,
        leases: &[Self::Lease],
        max_items: usize,
    ) -> impl Future<Output = Result<(Vec<Settled>, Vec<Self::Lease>), CommandError>> + Send;

    /// Adds so many items, and returns their keys.
    fn enqueue(
        &mut self,
        items: usize,
    ) -> impl Future<Output = Result<Vec<ItemKey>, CommandError>> + Send;
}

/// Whose access it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Tells workers apart, producers among them.
    pub(super) worker: usize,
    /// The place of its queue in the list of those under load.
    pub(super) queue: usize,
}

impl Place {
    /// Returns the name that the worker claims under.
    fn worker_id(self) -> String {
        format!("bench-{}", self.worker + 1)
    }
}

/// What is the same for every worker.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// How long leases last; none: as the queue has it.
    pub(super) lease: Option<Duration>,
    /// How long a claim waits for an item.
    pub(super) wait: Option<Duration>,
    /// The column that is set in a new item, and what to.
    pub(super) column: String,
    pub(super) payload: String,
}
