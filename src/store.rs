//! The contract between the broker and a database that holds leases.
//!
//! [`Store`] is the trait that the broker calls. [`sqlite`] and [`mssql`] implement it, and one conformance suite
//! (`tests/conformance`) checks both. [`Inspect`], a part of it, is for the commands that only look. [`schema`] is the
//! contract for the command that prepares tables.
//!
//! These rules hold for every method:
//!
//! - A method is one operation on one queue. A method that takes a list of requests returns one result per request, in
//!   request order. So one transaction can serve many callers.
//! - An operation is atomic: if it fails, no request of the list was applied. There are two exceptions. If the
//!   connection to a database server breaks, [`StoreError::Unavailable`] leaves open if the operation was applied. A
//!   list of settlements can take several transactions if it settles the same item more than once, or if the database
//!   refuses one of them.
//! - The clock of the store decides if a lease has expired: the database server's, or for an embedded file the host's.
//!   Durations are stored in milliseconds and rounded up, so that a lease never ends early.
//! - Any number of brokers, each with its own store on the same database, can call any method at the same time.
//! - An operation that has started runs to its end, even if the caller drops the future.

mod added_parts;
mod adoption;
mod enqueue_once;
mod error;
mod example_item;
mod follow_ups;
mod foreign_keys;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod index_role;
mod inspect;
mod instance;
mod item_facts;
mod item_size;
mod key_text;
mod migrations;
pub(crate) mod millis;
mod mirror;
pub mod mssql;
mod new_item;
mod pool_status;
mod purge;
mod queue_columns;
pub mod schema;
mod secrets;
pub mod sqlite;
mod stats;
mod survey;
mod table;
mod template;
mod written_columns;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_broker_value::Value;
use uuid::Uuid;

pub use self::enqueue_once::{EnqueueOnce, EnqueuedOnce};
pub use self::error::{Outage, Refusal, Rejection, StoreError};
pub use self::inspect::Inspect;
pub use self::instance::{Instance, SettingsDifference, SettingsHash};
pub use self::item_facts::{Ahead, BlockingSession, ForeignLock, ItemFacts, ItemRow};
pub use self::item_size::ItemSize;
pub use self::pool_status::{PoolStatus, RetryReason};
pub use self::purge::{PurgeStep, Purged, RetentionTurn};
pub use self::stats::{ListedItem, Stats};
pub use self::survey::{ColumnClass, Survey, SurveyedColumn};
use crate::item_state::State;
use crate::key::Key;
use crate::lease_id::{LeaseRef, Secret, SigningSecrets};
use crate::lease_trace::LeaseTrace;
use crate::trace_context::TraceContext;

/// Identifies a queue by its index in the list of queues that the store was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueIndex(pub usize);

/// Keeps the leases of all queues in a database.
///
/// The documentation of the [module](self) has the rules for every method. Besides the errors that a method lists, each
/// can return [`StoreError::Unavailable`], [`StoreError::Misconfigured`], [`StoreError::Io`] and [`StoreError::Bug`].
#[async_trait]
pub trait Store: Inspect {
    /// Returns secret 0, from which lease tokens and spans are derived. It is created when a database is first used, and
    /// every broker on the database has the same.
    fn secret(&self) -> &Secret;

    /// Returns the secrets that sign lease ids, as they were read last.
    fn signing_secrets(&self) -> &Arc<SigningSecrets>;

    /// Reads the secrets that sign lease ids again.
    async fn read_secrets(&self) -> Result<(), StoreError>;

    /// Adds a secret that signs lease ids, and returns its number. Ids that the others have signed are valid for
    /// `accept_old_for` more. Secrets that have retired before are deleted, except secret 0. Two calls at the same time can
    /// make one of them fail.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if all 255 numbers are in use.
    async fn rotate_secrets(&self, accept_old_for: Duration) -> Result<u8, StoreError>;

    /// Returns the file or the server and database that holds the leases, as text for logs and messages.
    fn location(&self) -> String;

    /// Returns the maximum number of operations of one kind on one queue that are worth running at the same time. While
    /// that many run, the broker collects further calls into the next operation.
    fn max_concurrent_operations(&self) -> usize;

    /// Returns the present state of the connections. It asks no database.
    fn pool_status(&self) -> PoolStatus;

    /// Returns the names of the columns whose values [`ClaimedItem::columns`] holds, in the same order.
    fn columns(&self, queue: QueueIndex) -> Arc<[String]>;

    /// Returns columns with values, as text, of an item with which a user can try [`Self::enqueue`]. `None`: the store knows no
    /// item that the table certainly accepts, because a rule of the table can refuse the values.
    async fn example_item(
        &self,
        queue: QueueIndex,
    ) -> Result<Option<Vec<(String, String)>>, StoreError>;

    /// Leases ready items to each call. Returns one result per call, in the order of the calls.
    ///
    /// The calls are served one after the other: each gets the first ready items in the queue's order, up to its
    /// [`max_items`](ClaimCall::max_items) and [`max_bytes`](ClaimCall::max_bytes), and no item goes to two calls. A
    /// lease counts one more attempt and raises the item's fencing token by one.
    ///
    /// The new items of all calls together have at most `max_bytes`, or there is only one. Further items then stay ready, and
    /// [`has_more`](Claimed::has_more) is set for the calls that could have got them. If the leases that calls already hold
    /// exceed `max_bytes`, further calls with request ids get no items, and [`has_more`](Claimed::has_more) is set for them.
    ///
    /// Sizes are estimates, made before items are leased ([`ItemSize`]). An item that is larger than `max_bytes` alone is
    /// passed over, and stays ready. A call looks at no more than `max_items` + [`MAX_PASSED_OVER`] items. A ready item that
    /// is larger than the queue's [`max_item_bytes`](crate::queue::QueueSpec::max_item_bytes) becomes dead.
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
    async fn heartbeat(
        &self,
        queue: QueueIndex,
        renewals: Arc<[Renewal]>,
    ) -> Result<Vec<Renewed>, StoreError>;

    /// Ends leases. Returns one result per lease, in request order.
    ///
    /// A settlement can be sent again. If a settlement of the same kind (complete, fail or release) has already ended
    /// this lease, the call changes nothing and returns the item's present state. This works until the item is claimed
    /// or redriven. If completion removes the row, a repeated completion returns [`Settled::Gone`].
    ///
    /// Follow-up items are added in the same transaction, and only by the settlement that ends the lease. A repeated
    /// completion does not add them again.
    ///
    /// The values in [`Settlement::columns`] are written only by the settlement that ends the lease. A repeated
    /// settlement does not write them again. An archived row has the written values.
    ///
    /// The completion of an item of a recurring queue removes the row's trace context, so that each run has a trace of its own.
    ///
    /// A settlement that cannot be applied is [`Settled::Refused`] and changes nothing. The other settlements of the
    /// list are applied. A settlement is refused if a follow-up item sets a column that does not exist or that a new
    /// item cannot set, or a value that the column cannot store. This is checked for every follow-up, also those of
    /// lost leases. The same holds for the columns that the settlement writes. A settlement is also refused if a constraint or a trigger refuses a change that it makes: to the
    /// item's row, to the archive, or by a follow-up.
    async fn settle(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<SettleResults, StoreError>;

    /// Stores trace contexts in the rows of leases that are held or have expired, unless a row has a text there already. The
    /// item's next lease continues the trace. A lease that has ended is passed over.
    async fn note_traces(
        &self,
        queue: QueueIndex,
        notes: Arc<[TraceNote]>,
    ) -> Result<(), StoreError>;

    /// Returns up to `limit` leases that have expired and that the reaper has not ended yet, those that were due first. Leases
    /// whose rows have a text as trace context are left out.
    async fn find_expired_untraced(
        &self,
        queue: QueueIndex,
        limit: usize,
    ) -> Result<Vec<LeaseRef>, StoreError>;

    /// Returns the leases on the rows with these keys, in any order. Leases whose rows have a text as trace context are left
    /// out.
    async fn find_leased_untraced(
        &self,
        queue: QueueIndex,
        keys: Arc<[Key]>,
    ) -> Result<Vec<LeaseRef>, StoreError>;

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

    /// Takes the leases on the rows with these keys away from their workers.
    ///
    /// The attempt counts, as for an expiry: if no attempts are left, the item becomes dead. The fence and the owner stay
    /// on the row, the token is cleared, and the reason is stored as the error. Until the next claim of the item, a
    /// heartbeat of the cancelled lease returns the reason. An item without a lease is not changed.
    ///
    /// A second run can cancel a lease that another worker has got in between.
    async fn cancel(
        &self,
        queue: QueueIndex,
        keys: Arc<[Key]>,
        cancellation: Cancellation,
    ) -> Result<CancelResults, StoreError>;

    /// Ends expired leases and makes delayed items ready whose due time has come: up to `limit` rows together, those
    /// that were due first.
    ///
    /// The item of an expired lease becomes ready, or dead if it has no attempts left. Several brokers can reap one
    /// queue at the same time: each row is reported to only one of them.
    ///
    /// `latest`: the latest time that the store's clock can show, in milliseconds since 1970-01-01T00:00:00Z. If it shows a
    /// later one, it was stepped forward. The leases that are due then give their attempts back, and no item becomes dead.
    /// `None`: the clock is not checked.
    async fn reap(
        &self,
        queue: QueueIndex,
        limit: usize,
        latest: Option<i64>,
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
    /// [`enqueue_memory`](crate::queue::QueueSpec::enqueue_memory). Any store on the database recognizes it.
    ///
    /// If the same request arrives several times at once, one of them adds the items, and the others return the same keys.
    ///
    /// # Errors
    /// Those of [`Store::enqueue`]. The request is not remembered then.
    async fn enqueue_once(
        &self,
        queue: QueueIndex,
        request: Arc<EnqueueOnce>,
    ) -> Result<EnqueuedOnce, StoreError>;

    /// Deletes remembered requests of all queues whose time has passed: up to `limit`, and on a database server no more
    /// than those of 2,000 items. Returns their number. Zero: none is left.
    async fn forget_requests(&self, limit: usize) -> Result<usize, StoreError>;

    /// Makes up to `limit` dead items ready again, those that died first, and resets their attempts to 0. Returns how
    /// many items it changed. On SQL Server without filtered indexes, the items come in the order of the queue.
    ///
    /// `checkpoints` decides if the items keep their checkpoints. It has no effect on a queue without checkpoints.
    async fn redrive(
        &self,
        queue: QueueIndex,
        limit: usize,
        checkpoints: Checkpoints,
    ) -> Result<usize, StoreError>;

    /// Visits the next rows in the order of the key, and deletes or counts the old items among them: those that have been
    /// completed or dead for long. An item whose age is unknown is not old.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if a constraint refuses the deletion, such as a foreign key. No item was deleted then.
    async fn purge(&self, queue: QueueIndex, step: PurgeStep) -> Result<Purged, StoreError>;

    /// Deletes up to `limit` rows of the archive that were completed longer ago than `age`. Returns their number.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the queue has no archive, or one without an index on the time.
    async fn purge_archive(
        &self,
        queue: QueueIndex,
        age: Duration,
        limit: usize,
    ) -> Result<usize, StoreError>;

    /// Counts the rows of the archive that were completed longer ago than `age`.
    ///
    /// # Errors
    /// Those of [`Store::purge_archive`].
    async fn count_old_archived(&self, queue: QueueIndex, age: Duration)
    -> Result<u64, StoreError>;

    /// Makes `broker` the only one that deletes old items of the queue for `duration` from now, unless another broker has
    /// the turn. A broker that has the turn can take it again, and then the new duration counts.
    async fn take_retention_turn(
        &self,
        queue: QueueIndex,
        broker: Uuid,
        duration: Duration,
    ) -> Result<RetentionTurn, StoreError>;

    /// Lists a broker process as running now, and deletes the rows of processes that have not been listed for a day. Returns the
    /// other processes that were listed within the last 15 s.
    async fn announce(&self, instance: Arc<Instance>) -> Result<Vec<Instance>, StoreError>;

    /// Checks that the database answers and accepts writes.
    async fn probe(&self) -> Result<(), StoreError>;
}

/// The number of items that a claim looks at beyond those that it asks for, because some can be too large.
pub const MAX_PASSED_OVER: usize = 100;

/// The maximum number of entries in [`Claimed::too_large`].
pub const MAX_TOO_LARGE: usize = 10;

/// What happens to the checkpoints of items that are redriven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkpoints {
    /// The next attempt gets them.
    #[default]
    Keep,
    /// They are removed.
    Clear,
}

/// One claim call of a worker.
#[derive(Clone, Debug)]
pub struct ClaimCall {
    /// The id of the worker, stored as the owner of its leases.
    pub worker: String,
    /// The token of the leases that this call gets.
    pub token: Uuid,
    /// True if the worker sent a request id. The token is derived from the id, so a retry has the same token and can
    /// find the leases of the first try.
    pub has_request_id: bool,
    /// The maximum number of items.
    pub max_items: usize,
    /// The maximum size of all items together, in bytes.
    pub max_bytes: usize,
    /// The duration of the leases.
    pub duration: Duration,
}

/// The result of one claim call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claimed {
    /// The leased items, in the queue's order.
    pub items: Vec<ClaimedItem>,
    /// The size of these items together, estimated in bytes.
    pub bytes: usize,
    /// The first items that were passed over because each is larger than [`ClaimCall::max_bytes`]. At most
    /// [`MAX_TOO_LARGE`].
    pub too_large: Vec<TooLargeItem>,
    /// True if further items may be ready for this call: the next one did not fit into the bytes that were left, or the call
    /// did not look at all of them.
    pub has_more: bool,
}

/// A ready item that is too large for a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct TooLargeItem {
    /// The key of the item.
    pub key: Key,
    /// Its size, estimated in bytes.
    pub size_bytes: usize,
}

/// An item with its new lease.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedItem {
    /// The lease.
    pub lease: LeaseRef,
    /// The time when the lease expires.
    pub expiry: LeaseExpiry,
    /// The time when the item became ready, by the store's clock, in milliseconds since 1970-01-01T00:00:00Z. `None`: it is
    /// not known, because the row does not have it or because an earlier call got this lease.
    pub ready_time: Option<i64>,
    /// The values of the columns that [`Store::columns`] names, as they are after the claim.
    pub columns: Vec<Value>,
    /// The W3C trace context of the producer, if the row has one.
    pub trace_parent: Option<String>,
    /// The checkpoint that an earlier attempt stored. `None`: there is none, or the queue has no checkpoints.
    pub checkpoint: Option<Vec<u8>>,
}

/// The time when a lease expires, as a moment and as a duration.
///
/// A worker whose clock is not synchronized uses the duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseExpiry {
    /// The moment by the store's clock, in milliseconds since 1970-01-01T00:00:00Z.
    pub expire_time: i64,
    /// The duration from the store's answer to the moment; zero if the moment has passed.
    pub time_left: Duration,
}

/// A request to extend a lease.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The lease.
    pub lease: LeaseRef,
    /// The duration of the lease, counted from now.
    pub duration: Duration,
    /// The checkpoint to store. Empty: the stored one is removed. `None`: the stored one stays. Only for queues with
    /// checkpoints.
    pub checkpoint: Option<Vec<u8>>,
    /// Facts for the lease's span. The store does not read them. `None`: there are none.
    pub trace: Option<Box<LeaseTrace>>,
}

impl Renewal {
    /// Returns a renewal without a checkpoint.
    pub fn new(lease: LeaseRef, duration: Duration) -> Self {
        Self {
            lease,
            duration,
            checkpoint: None,
            trace: None,
        }
    }
}

/// The result of a [`Renewal`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease was extended.
    Extended(LeaseExpiry),
    /// The lease is not held. Nothing was changed.
    Lost {
        /// The present state of the item, also if another lease has changed it. `None`: no row has the key of the lease.
        state: Option<State>,
        /// The reason, if the lease was cancelled and the item has not been claimed since then.
        cancel_reason: Option<String>,
    },
}

impl Renewed {
    /// The result for a lease that never existed.
    pub const UNKNOWN: Self = Self::Lost {
        state: None,
        cancel_reason: None,
    };

    /// Returns the new expiry, or `None` if the lease is lost.
    pub const fn expiry(&self) -> Option<LeaseExpiry> {
        match self {
            Self::Extended(expiry) => Some(*expiry),
            Self::Lost { .. } => None,
        }
    }
}

/// What becomes of items whose leases are cancelled.
#[derive(Clone, Debug)]
pub struct Cancellation {
    /// The delay until the items are ready; zero makes them ready immediately.
    pub delay: Duration,
    /// True: the items become dead. The delay is then unused.
    pub dead_letter: bool,
    /// The reason, stored in the rows.
    pub reason: String,
}

/// The result of a cancellation for one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// True if the item was leased, and this call ended the lease.
    pub cancelled: bool,
    /// The state of the item after the call. `None`: there is no row with this key.
    pub state: Option<State>,
}

impl Cancelled {
    /// The result for a key without a row.
    pub const NO_ROW: Self = Self {
        cancelled: false,
        state: None,
    };
}

/// A request to end a lease.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The lease.
    pub lease: LeaseRef,
    /// The way in which it ends.
    pub ending: Ending,
    /// Values for columns of the item's row, which the statement that ends the lease writes. Only for completions and
    /// failures, and only columns that [`QueueSpec::writable`](crate::queue::QueueSpec::writable) lists.
    pub columns: Vec<(String, Value)>,
    /// The checkpoint to store, as in [`Renewal`], in the statement that ends the lease. Only for failures and releases, and
    /// only for queues with checkpoints. A completion removes the stored one.
    pub checkpoint: Option<Vec<u8>>,
    /// Facts for the lease's span. The store does not read them. `None`: there are none.
    pub trace: Option<Box<LeaseTrace>>,
}

impl Settlement {
    /// Returns a settlement that writes no columns and no checkpoint.
    pub fn new(lease: LeaseRef, ending: Ending) -> Self {
        Self {
            lease,
            ending,
            columns: Vec::new(),
            checkpoint: None,
            trace: None,
        }
    }
}

/// A trace context for the row of a lease.
#[derive(Clone, Debug)]
pub struct TraceNote {
    /// The lease.
    pub lease: LeaseRef,
    /// The context of the lease's span.
    pub context: TraceContext,
}

/// The way in which a worker ends a lease.
#[derive(Clone, Debug)]
pub enum Ending {
    /// The work is done. The queue's configuration decides if the row is kept, deleted, archived or made ready again
    /// later.
    Complete {
        /// Items that are added in the same transaction.
        follow_ups: Vec<FollowUp>,
    },
    /// The work failed.
    Fail {
        /// A description of the failure, stored in the row.
        error: String,
        /// The delay until the next attempt. `None`: the item becomes dead.
        retry: Option<Duration>,
    },
    /// The worker returns the item without having worked on it. The attempt does not count.
    Release {
        /// The delay until the item is ready; zero makes it ready immediately.
        delay: Duration,
    },
}

/// The result of [`Store::settle`].
#[derive(Clone, Debug)]
pub struct SettleResults {
    /// The time at which leases ended, by the store's clock, in milliseconds since 1970-01-01T00:00:00Z. If the settlements
    /// took several transactions, that of the last one. `None`: no lease ended.
    pub time: Option<i64>,
    /// One result per settlement, in request order.
    pub results: Vec<Settled>,
}

/// The result of one settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// This settlement has ended the lease. The new state of its item.
    Ended(State),
    /// An earlier settlement of the same kind has ended the lease. The present state of its item.
    Repeated(State),
    /// The lease is not held. The settlement changed nothing.
    Lost,
    /// A completion found no row with the key of the lease. Only completions have this result.
    ///
    /// An earlier completion of this lease removed the row, or the completion of a later lease did after this one had
    /// expired, or another program deleted it. The store cannot tell these apart.
    Gone,
    /// The settlement cannot be applied as it was sent. It changed nothing: a lease that was held is still held.
    Refused(Refusal),
}

/// An item that a completion adds to a queue.
#[derive(Clone, Debug)]
pub struct FollowUp {
    /// The queue to which the item is added. It can be another queue than that of the completed item.
    pub queue: QueueIndex,
    /// The item.
    pub item: NewItem,
}

/// An item to add.
#[derive(Clone, Debug, Default)]
pub struct NewItem {
    /// The columns that the item sets, with their values. All other columns take the table's defaults.
    pub columns: Vec<(String, Value)>,
    /// The delay until the item is ready; zero makes it ready immediately.
    pub delay: Duration,
    /// The W3C trace context of the producer.
    pub trace_parent: Option<String>,
}

impl Settled {
    /// Returns the present state of the item if this settlement, or an earlier one of the same kind, has ended the lease.
    pub const fn state(&self) -> Option<State> {
        match self {
            Self::Ended(state) | Self::Repeated(state) => Some(*state),
            Self::Lost | Self::Gone | Self::Refused(_) => None,
        }
    }
}

/// The result of [`Store::release_claims`].
#[derive(Clone, Debug, Default)]
pub struct ReleasedClaims {
    /// The number of released leases of each call, in request order.
    pub counts: Vec<usize>,
    /// The released leases.
    pub ended: Vec<EndedLease>,
}

/// The result of [`Store::cancel`].
#[derive(Clone, Debug, Default)]
pub struct CancelResults {
    /// One result per key, in request order.
    pub results: Vec<Cancelled>,
    /// The cancelled leases.
    pub ended: Vec<EndedLease>,
}

/// The result of [`Store::reap`].
#[derive(Clone, Debug, Default)]
pub struct Reaped {
    /// The expired leases that this run ended.
    pub expired: Vec<EndedLease>,
    /// The number of delayed items that became ready.
    pub promoted: usize,
    /// The time until the queue's next due time, zero if it has passed. `None`: no item is leased or delayed.
    pub next_due: Option<Duration>,
    /// The time of the run by the store's clock, in milliseconds since 1970-01-01T00:00:00Z. `None`: no item was leased or
    /// delayed.
    pub time: Option<i64>,
}

/// A lease that was ended without its lease id, as its row showed it.
#[derive(Clone, Debug)]
pub struct EndedLease {
    /// The lease.
    pub lease: LeaseRef,
    /// The id of the worker that held it.
    pub owner: Option<String>,
    /// The new state of the item.
    pub state: State,
    /// The trace context in the row.
    pub trace_parent: Option<String>,
    /// The time of the claim. All times are by the store's clock, in milliseconds since 1970-01-01T00:00:00Z.
    pub claim_time: i64,
    /// The time at which it expired or would have expired.
    pub expire_time: i64,
    /// The time of the operation that ended it.
    pub end_time: i64,
}
