//! The contract for leases: the operations of workers and producers, and the end of leases that are due.

use std::sync::Arc;

use async_trait::async_trait;
use lease_broker_model::key::Key;
use uuid::Uuid;

use super::claim::{ClaimCall, Claimed};
use super::ended_leases::{CancelResults, Cancellation, CancelledLease, Reaped, ReleasedClaims};
use super::heartbeat::{Renewal, Renewed};
use super::new_items::NewItem;
use super::queue_index::QueueIndex;
use super::settle::{SettleResults, Settlement};
use crate::enqueue_once::{EnqueueOnce, EnqueuedOnce};
use crate::error::StoreError;
use crate::latest_time::LatestTime;

/// Which operations of one kind on one queue are worth running at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// One runs after the other. The next can run while the device still takes the last, so further ones are worth it if they
    /// are small: they then need not wait for the device twice.
    Pipelined,
    /// Several run at the same time, up to this number. Each costs the database a transaction, so a further one is worth it if it is
    /// large.
    Parallel(usize),
}

/// Gives, extends and ends the leases of all queues in a database, and adds items.
///
/// The rules of the [module](crate) hold for every method. Besides the errors that a method lists, each can return
/// [`StoreError::Unavailable`], [`StoreError::Misconfigured`], [`StoreError::Io`] and [`StoreError::Bug`].
#[async_trait]
pub trait Leases: Send + Sync + 'static {
    /// Returns which operations of one kind on one queue are worth running at the same time. While no further one is, the
    /// broker collects calls into the next operation.
    fn concurrency(&self) -> Concurrency;

    /// Withdraws the operations that wait for the database and have not begun. They fail with [`StoreError::Unavailable`], and
    /// are not applied.
    fn withdraw_waiting(&self);

    /// Leases ready items to each call. Returns one result per call, in the order of the calls.
    ///
    /// The calls are served one after the other: each gets the first ready items in the queue's order, up to its
    /// [`max_items`](ClaimCall::max_items) and [`max_bytes`](ClaimCall::max_bytes), and no item goes to two calls. A
    /// lease counts one more attempt and raises the item's fencing token by one.
    ///
    /// A suspect is leased alone, to a worker that holds nothing else. [`is_held_back`](Claimed::is_held_back) is
    /// set for the calls that could not get all ready items because of suspects.
    ///
    /// The new items of all calls together have at most `max_bytes`, or there is only one. Further items then stay ready, and
    /// [`has_more`](Claimed::has_more) is set for the calls that could have got them. If the leases that calls already hold
    /// exceed `max_bytes`, further calls with request ids get no items, and [`has_more`](Claimed::has_more) is set for them.
    ///
    /// Sizes are estimates, made before items are leased ([`ItemSize`](crate::ItemSize)). An item that is larger than
    /// `max_bytes` alone is passed over, and stays ready. A call looks at no more than `max_items` +
    /// [`MAX_PASSED_OVER`](super::MAX_PASSED_OVER) items. A ready item that is larger than the queue's
    /// [`max_leased_bytes`](lease_broker_model::queue::QueueSpec::max_leased_bytes) becomes dead.
    ///
    /// A call with a request id may be a retry whose first answer was lost. If leases with its token exist that have
    /// neither expired nor been settled, the call gets exactly these leases, and no new ones. Otherwise it claims new
    /// items. If the same call arrives several times at once, all of them get the same leases.
    async fn claim(
        &self,
        queue: QueueIndex,
        calls: Arc<[ClaimCall]>,
        max_bytes: usize,
    ) -> Result<Vec<Claimed>, StoreError>;

    /// Extends each lease so that it lasts the given duration from now. Returns one result per lease, in request order.
    ///
    /// If the list has one lease several times, the last renewal decides when it expires, and the last one with a checkpoint
    /// decides which is stored. A checkpoint is stored by the statement that extends the lease, so only if it is held.
    ///
    /// If another program has locked the row of one of several leases, the renewal is
    /// [refused for now](crate::Refusal::locked), and the others are extended.
    async fn heartbeat(
        &self,
        queue: QueueIndex,
        renewals: Arc<[Renewal]>,
    ) -> Result<Vec<Renewed>, StoreError>;

    /// Ends leases. Returns one result per lease, in request order.
    ///
    /// A settlement can be sent again. If a settlement of the same kind (complete, fail or release) has already ended this
    /// lease, the call changes nothing and returns the item's present state. This works until the item is claimed or
    /// redriven. If completion removes the row, a repeated completion returns [`Settled::Gone`](super::Settled::Gone).
    ///
    /// Follow-up items are added in the same transaction, and only by the settlement that ends the lease. A repeated
    /// completion does not add them again.
    ///
    /// The values in [`Settlement::columns`] are written only by the settlement that ends the lease. A repeated
    /// settlement does not write them again. An archived row has the written values.
    ///
    /// The completion of an item of a recurring queue removes the row's trace context, so that each run has a trace of its own.
    ///
    /// A settlement that cannot be applied is [`Settled::Refused`](super::Settled::Refused) and changes nothing. The other
    /// settlements of the list are applied. A settlement is refused if a follow-up item sets a column that does not exist or
    /// that a new item cannot set, or a value that the column cannot store. This is checked for every follow-up, also those
    /// of lost leases. The same holds for the columns that the settlement writes. A settlement is also refused if a
    /// constraint or a trigger refuses a change that it makes: to the item's row, to the archive, or by a follow-up. If another
    /// program has locked a row that it changes, the refusal is [`Refusal::locked`](crate::Refusal::locked), and the settlement can
    /// be sent again.
    async fn settle(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<SettleResults, StoreError>;

    /// Releases every lease that the claim calls with these tokens got and that is still held, without a delay. If a token is
    /// in the list twice, its leases count once.
    ///
    /// A claim that runs at the same time with one of these tokens is waited for, and its leases are released too. The
    /// operation takes one transaction for each 1,000 leases.
    async fn release_claims(
        &self,
        queue: QueueIndex,
        tokens: Arc<[Uuid]>,
    ) -> Result<ReleasedClaims, StoreError>;

    /// Takes leases away from their workers. Returns one result per lease, in request order. No key is in the list twice.
    ///
    /// The attempt counts, as for an expiry: if no attempts are left, the item becomes dead. The fence and the owner stay
    /// on the row, the token is cleared, and the reason is stored as the error. Until the next claim of the item, a
    /// heartbeat of the cancelled lease returns the reason. An item without this lease is not changed.
    ///
    /// A second run returns [`Cancelled::Repeated`](super::Cancelled::Repeated) for the leases with fencing tokens, until
    /// their items are claimed. Without a fencing token, it can cancel a lease that another worker has got in between.
    async fn cancel(
        &self,
        queue: QueueIndex,
        leases: Arc<[CancelledLease]>,
        cancellation: Cancellation,
    ) -> Result<CancelResults, StoreError>;

    /// Ends expired leases and makes delayed items ready whose due time has come: up to `limit` rows together, those
    /// that were due first.
    ///
    /// The item of an expired lease becomes ready, or dead if it has no attempts left. Several brokers can reap one
    /// queue at the same time: each row is reported to only one of them.
    ///
    /// `latest`: the latest time that the store's clock can show. If it shows a later one, it was stepped forward. The leases that are due then give their attempts back, and no item becomes dead.
    /// `None`: the clock is not checked.
    async fn reap(
        &self,
        queue: QueueIndex,
        limit: usize,
        latest: Option<LatestTime>,
    ) -> Result<Reaped, StoreError>;

    /// Adds items and returns their keys, in request order.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if an item sets a column that does not exist or is not writable, a value that the
    /// column cannot store, or breaks a constraint. No item of the list is added then.
    async fn enqueue(
        &self,
        queue: QueueIndex,
        items: Arc<[NewItem]>,
    ) -> Result<Vec<Key>, StoreError>;

    /// Adds the items of a request, unless an earlier request with its id has added them within the queue's
    /// [`enqueue_memory`](lease_broker_model::queue::QueueSpec::enqueue_memory). Any store on the database recognizes it.
    ///
    /// If the same request arrives several times at once, one of them adds the items, and the others return the same keys.
    ///
    /// # Errors
    /// Those of [`Leases::enqueue`]. The request is not remembered then.
    async fn enqueue_once(
        &self,
        queue: QueueIndex,
        request: Arc<EnqueueOnce>,
    ) -> Result<EnqueuedOnce, StoreError>;
}
