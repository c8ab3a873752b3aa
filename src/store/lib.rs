//! The contract between the broker and a database that holds leases, and the two stores that keep it.
//!
//! Five traits are the contract. [`Leases`] gives, extends and ends leases. [`Upkeep`] keeps the database in order. [`Operate`] has
//! the changes of operators. [`Browse`] reads the database and changes nothing. [`Facts`] needs no call to the database. A [`Store`]
//! has all five. [`sqlite`] and [`mssql`] implement them, and one conformance suite (`tests/conformance`) checks both.
//! [`schema`] is the contract for the command that prepares tables.
//!
//! This crate cannot import the broker: the broker's crate depends on it. It reads no configuration file either, so the types
//! that describe a queue are in [`lease_broker_model`]. The statements are in `lease_broker_sql`. Only [`sqlite`] names rusqlite,
//! and only [`mssql`] names tiberius. What both need is in the modules beside them.
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
mod contract;
mod enqueue_once;
mod epoch;
mod error;
mod example_item;
mod follow_ups;
mod foreign_keys;
#[doc(hidden)]
pub mod fuzzing;
mod group_list;
mod index_role;
mod instance;
mod item_facts;
mod item_size;
mod key_text;
mod latest_time;
mod migrations;
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
#[cfg(test)]
mod test_queue;
mod time_text;
mod turn;
mod uses;
mod withdrawal;
mod written_columns;

pub use self::contract::{
    AppliedBatch, BrokerOrders, Browse, CancelResults, Cancellation, Cancelled, CancelledLease,
    Checkpoints, ClaimCall, Claimed, ClaimedItem, Concurrency, Database, EndedLease, Ending, Facts,
    FollowUp, FoundItem, FoundItems, GroupPause, Holding, ItemChange, ItemFilter, ItemRecord,
    ItemSearch, KEEP_OPERATIONS_FOR, LONGEST_HOLD, LeaseExpiry, LeaseProof, LeaseRow, Leases,
    LimitChange, Limited, MAX_CLAIM_GROUPS, MAX_PAGE_BYTES, MAX_PASSED_OVER, MAX_PAUSED_GROUPS,
    MAX_TOO_LARGE, NewGroupPause, NewItem, NewOperation, NewPause, Operate, Operation,
    OperationBatch, OperationKind, OperationState, PauseMode, QueueIndex, QueueLimitValues,
    QueuePause, Reaped, ReleasedClaims, Renewal, Renewed, RowEnding, RowOperation, RowOutcome,
    SearchPosition, SettleResults, Settled, Settlement, Share, StartedOperation, Store,
    TooLargeItem, TurnCost, Upkeep, share_of, step,
};
pub use self::enqueue_once::{EnqueueOnce, EnqueuedOnce};
pub use self::error::{
    Applied, Outage, OutageCause, Problem, ProblemKind, Refusal, Rejection, StoreError,
};
pub use self::group_list::{FoundGroups, GroupHead, GroupSearch, GroupState, ListedGroup};
pub use self::instance::{
    Activity, BrokerList, Instance, ListedBroker, SettingsDifference, SettingsHash,
};
pub use self::item_facts::{Ahead, BlockingSession, ForeignLock, ItemFacts, ItemRow};
pub use self::item_size::ItemSize;
pub use self::latest_time::LatestTime;
pub use self::pool_status::{PoolStatus, RetryReason};
pub use self::purge::{ArchiveCutoff, PurgePosition, PurgeStep, Purged, RetentionTurn};
pub use self::stats::{ListedItem, Stats};
pub use self::survey::{ColumnClass, Survey, SurveyedColumn};
pub use self::withdrawal::Beginning;
