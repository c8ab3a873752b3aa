//! The contract of a store: the one place where leases live.
//!
//! Every method is one atomic operation on one queue and takes a list of requests: all of it is applied, or none of it
//! and an error says why. The database's clock decides what has expired. Any number of brokers, each with a store of
//! its own on the same database, may call any method at the same time. An operation, once started, runs to its end even
//! if the future that started it is dropped.

mod follow_ups;
mod mirror;
pub mod mssql;
pub mod schema;
pub mod sqlite;
mod template;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::item_state::State;
use crate::lease_id::{LeaseRef, Secret};
use crate::value::{Key, Value};

/// A queue of the store: its place in the list of queues that the store was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueIndex(pub usize);

/// Leases, kept in a database. The module's documentation states what holds for every method.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the deployment's secret, made when the database was first used and the same for every broker on it.
    fn secret(&self) -> &Secret;

    /// Says where the leases are, for people.
    fn place(&self) -> String;

    /// Returns how many operations of one kind on one queue are worth running at the same time.
    fn width(&self) -> usize;

    /// Returns the names of the columns in [`ClaimedItem::columns`].
    fn columns(&self, queue: QueueIndex) -> Arc<[String]>;

    /// Leases ready items to each call in turn, in the queue's order: each gets at most its `max_items`, and none gets
    /// an item that another got.
    ///
    /// A lease raises the item's fence and attempt by one. A call with `repeat` whose token already holds leases gets
    /// all of those that have not expired, and no others; so do two such calls with one token. Once its token holds
    /// none, it claims as a new one would.
    async fn claim(
        &self,
        queue: QueueIndex,
        calls: Arc<[ClaimCall]>,
    ) -> Result<Vec<Vec<ClaimedItem>>, StoreError>;

    /// Makes each lease last `duration` from now; none for a lease that is not held any more.
    async fn heartbeat(
        &self,
        queue: QueueIndex,
        extensions: Arc<[Extension]>,
    ) -> Result<Vec<Option<Held>>, StoreError>;

    /// Ends each lease and returns the state that its item is in now; none for a lease that is not held any more.
    ///
    /// A settlement of the kind that has ended this lease before changes nothing and returns the state again, until the
    /// item is claimed by somebody else. Where completion removes the row, the repeat finds nothing and returns none.
    /// Follow-ups are added in the same transaction, and only by the settlement that ends the lease.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if a follow-up names a column that it can't set or a value that the column can't hold,
    /// whether its lease is held or not; and if a constraint of a table refuses the follow-up of a lease that is held
    /// or, with no follow-up named, the settlement itself (a mirror column, an archive's key, a foreign key).
    async fn settle(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<Vec<Option<State>>, StoreError>;

    /// Ends up to `limit` leases that have expired and makes delayed items ready whose time has come.
    ///
    /// An expired lease's item becomes ready, or dead if its attempts are spent. Safe to run at the same time anywhere.
    async fn reap(&self, queue: QueueIndex, limit: usize) -> Result<Reaped, StoreError>;

    /// Adds items and returns their keys, in the order given.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] for an unknown column, a value that the column can't hold, or a broken constraint.
    async fn enqueue(
        &self,
        queue: QueueIndex,
        items: Arc<[NewItem]>,
    ) -> Result<Vec<Key>, StoreError>;

    /// Counts the items of each state, and tells the ages that operators watch.
    ///
    /// The cost does not grow with the table: of a state with more than [`Stats::ENOUGH`] items it may say only that there
    /// are at least as many, and the ages are those of the first 1,000 ready items in the queue's order and of 10,000
    /// leases.
    async fn stats(&self, queue: QueueIndex) -> Result<Stats, StoreError>;

    /// The same, with every item counted, however many rows the table has.
    async fn exact_stats(&self, queue: QueueIndex) -> Result<Stats, StoreError>;

    /// Lists up to `limit` items in `state`, the longest in it first; of a state with more than 10,000 items perhaps not
    /// the longest of all.
    async fn list(
        &self,
        queue: QueueIndex,
        state: State,
        limit: usize,
    ) -> Result<Vec<ListedItem>, StoreError>;

    /// Makes up to `limit` dead items ready, with all their attempts before them, and returns how many.
    async fn redrive(&self, queue: QueueIndex, limit: usize) -> Result<usize, StoreError>;

    /// Returns whether the store answers and can write.
    async fn probe(&self) -> Result<(), StoreError>;
}

/// One worker's claim.
#[derive(Clone, Debug)]
pub struct ClaimCall {
    /// The worker's id.
    pub worker: String,
    /// The token of the leases that this call gets.
    pub token: Uuid,
    /// Whether the token may already hold leases: the call names a request id.
    pub repeat: bool,
    /// The most items wanted.
    pub max_items: usize,
    /// How long the leases last.
    pub duration: Duration,
}

/// A leased item.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedItem {
    /// The lease.
    pub lease: LeaseRef,
    /// Until when.
    pub held: Held,
    /// The values of [`Store::columns`], as they are after the claim.
    pub columns: Vec<Value>,
    /// The producer's W3C trace context.
    pub trace_parent: Option<String>,
}

/// Until when a lease is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The expiry by the database's clock, in milliseconds since 1970-01-01T00:00:00Z.
    pub expire_time: i64,
    /// How long that was away when the database answered.
    pub time_left: Duration,
}

/// A wish to hold a lease longer.
#[derive(Clone, Debug)]
pub struct Extension {
    /// The lease.
    pub lease: LeaseRef,
    /// How long it lasts from now.
    pub duration: Duration,
}

/// The end of a lease.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The lease.
    pub lease: LeaseRef,
    /// How it ends.
    pub ending: Ending,
}

/// How a worker ends a lease.
#[derive(Clone, Debug)]
pub enum Ending {
    /// The work is done.
    Complete {
        /// Items to add in the same transaction.
        follow_ups: Vec<FollowUp>,
    },
    /// The work failed; no `retry` means that the item is dead.
    Fail {
        /// Kept on the row.
        error: String,
        /// How long until the next attempt.
        retry: Option<Duration>,
    },
    /// The item is given back, and the attempt too.
    Release {
        /// How long until it is ready.
        delay: Duration,
    },
}

/// An item that a completion adds.
#[derive(Clone, Debug)]
pub struct FollowUp {
    /// Where to.
    pub queue: QueueIndex,
    /// What.
    pub item: NewItem,
}

/// An item to add.
#[derive(Clone, Debug)]
pub struct NewItem {
    /// Columns and their values; the others take the table's defaults.
    pub columns: Vec<(String, Value)>,
    /// How long until it is ready.
    pub delay: Duration,
    /// The producer's W3C trace context.
    pub trace_parent: Option<String>,
}

/// What a reaper's run found.
#[derive(Clone, Debug, Default)]
pub struct Reaped {
    /// The leases ended.
    pub expired: Vec<Expired>,
    /// How many delayed items became ready.
    pub promoted: usize,
    /// How long until the next due time in the queue; none if nothing is leased or delayed.
    pub next_due: Option<Duration>,
}

/// A lease that the reaper ended.
#[derive(Clone, Debug)]
pub struct Expired {
    /// The lease.
    pub lease: LeaseRef,
    /// Who held it.
    pub owner: Option<String>,
    /// Where the item is now: ready or dead.
    pub state: State,
}

/// A queue in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items by state, in the order of [`State::ALL`].
    pub count: [u64; 5],
    /// Whether there may be more of them than were counted, in the same order.
    pub at_least: [bool; 5],
    /// How long the item that has been ready longest has been so. Unknown for rows that other programs inserted.
    pub oldest_ready: Option<Duration>,
    /// How long the lease that has been held longest has been so.
    pub oldest_lease: Option<Duration>,
}

impl Stats {
    /// How many items of a state are counted, before it is enough to know that there are so many.
    pub const ENOUGH: u64 = 10_000;

    /// Returns how many items are in `state`.
    pub fn of(&self, state: State) -> u64 {
        self.count[state as usize]
    }

    /// Returns whether more items than [`Self::of`] may be in `state`.
    pub fn may_be_more(&self, state: State) -> bool {
        self.at_least[state as usize]
    }
}

/// An item as operators see it.
#[derive(Clone, Debug)]
pub struct ListedItem {
    /// Its key.
    pub key: Key,
    /// Who holds it, or settled it last.
    pub owner: Option<String>,
    /// How long it has been in its state; unknown for rows that other programs inserted.
    pub age: Option<Duration>,
    /// How long until its due time, if it has one.
    pub due_in: Option<Duration>,
    /// Attempts used.
    pub attempt: u32,
    /// Times claimed.
    pub fence: i64,
    /// The last failure.
    pub error: Option<String>,
}

/// Where in the list of requests something was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The request's place in the list.
    pub item: usize,
    /// For a settlement, the follow-up's place.
    pub follow_up: Option<usize>,
    /// The column, where one is to blame.
    pub column: Option<String>,
    /// What is wrong.
    pub problem: String,
}

/// Why a store can't be reached, and what was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    /// What was found last.
    pub reason: String,
    /// How often the operation was tried; 0 if it was not.
    pub tries: u32,
    /// The number that a database server gives to what was found.
    pub number: Option<u32>,
}

impl std::fmt::Display for Outage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tries {
            0 | 1 => write!(out, "{}", self.reason),
            tries => write!(out, "{} (tried {tries} times)", self.reason),
        }
    }
}

impl<T: Into<String>> From<T> for Outage {
    fn from(reason: T) -> Self {
        Self {
            reason: reason.into(),
            ..Self::default()
        }
    }
}

/// Why an operation did nothing.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StoreError {
    /// One of the requests can't be applied, and none was.
    #[error("item {}: {}", .0.item, .0.problem)]
    Rejected(Rejection),
    /// The store can't be reached or is out of room; later it may work.
    #[error("the store is unavailable: {0}")]
    Unavailable(Outage),
    /// The store refuses until somebody changes its configuration or its schema.
    #[error("{0}")]
    Misconfigured(String),
    /// The file or the device under the store does not do what it must.
    #[error("{0}")]
    Io(String),
    /// The store answered something that no correct broker can get.
    #[error("unexpected answer of the store: {0}")]
    Bug(String),
}

/// Says that a new item names a column which it may not set, and which ones it may.
fn why_not_writable<'a>(
    queue: &str,
    name: &str,
    writable: impl Iterator<Item = &'a String>,
) -> String {
    let mut names: Vec<&str> = writable.map(String::as_str).collect();
    names.sort_unstable();
    format!(
        "queue {queue:?} has no column {name:?} that a new item may set; it has {}",
        names.join(", ")
    )
}

impl StoreError {
    /// Says that the store can't be reached, where nothing more is known than why.
    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable(reason.into().into())
    }
}
