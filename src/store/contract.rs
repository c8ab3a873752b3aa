//! The contract of a store, in five traits, with the requests and the results of their methods.

mod browse;
mod claim;
mod ended_leases;
mod facts;
mod group_pause;
mod heartbeat;
mod item_search;
mod leases;
mod limits;
mod new_items;
mod operate;
mod operations;
mod pause;
mod queue_index;
mod settle;
mod step;
mod suspects;
mod upkeep;

use std::sync::Arc;

pub use self::browse::Browse;
pub(crate) use self::claim::restore_runs;
pub use self::claim::{
    ClaimCall, Claimed, ClaimedItem, LeaseExpiry, Limited, MAX_CLAIM_GROUPS, MAX_PASSED_OVER,
    MAX_TOO_LARGE, TooLargeItem, TurnCost,
};
pub use self::ended_leases::{
    CancelResults, Cancellation, Cancelled, CancelledLease, EndedLease, Reaped, ReleasedClaims,
};
pub use self::facts::{Database, Facts};
pub use self::group_pause::{GroupPause, MAX_PAUSED_GROUPS, NewGroupPause};
pub use self::heartbeat::{Renewal, Renewed};
pub use self::item_search::{
    FoundItem, FoundItems, ItemFilter, ItemRecord, ItemSearch, MAX_PAGE_BYTES, SearchPosition,
};
pub use self::leases::{Concurrency, Leases};
pub use self::limits::{LimitChange, QueueLimitValues};
pub use self::new_items::{FollowUp, NewItem};
pub use self::operate::{KEEP_OPERATIONS_FOR, LONGEST_HOLD, Operate};
pub use self::operations::{
    AppliedBatch, BrokerOrders, Checkpoints, ItemChange, NewOperation, Operation, OperationBatch,
    OperationKind, OperationState, StartedOperation,
};
pub use self::pause::{NewPause, PauseMode, QueuePause};
pub use self::queue_index::QueueIndex;
pub(crate) use self::settle::wants_owner;
pub use self::settle::{Ending, SettleResults, Settled, Settlement};
pub use self::step::{LeaseProof, LeaseRow, RowEnding, RowOperation, RowOutcome, step};
pub(crate) use self::step::{due_after, next_fence, ready_after};
pub use self::suspects::{Holding, Share, share_of};
pub use self::upkeep::Upkeep;

/// A store that does everything.
pub trait Store: Facts + Leases + Operate + Upkeep {
    /// Returns the reads of the store.
    fn reads(&self) -> &Arc<dyn Browse>;
}
