//! The contract of a store, in four traits, with the requests and the results of their methods.

mod claim;
mod ended_leases;
mod facts;
mod heartbeat;
mod inspect;
mod latest_time;
mod leases;
mod new_items;
mod queue_index;
mod settle;
mod step;
mod suspects;
mod upkeep;

pub use self::claim::{
    ClaimCall, Claimed, ClaimedItem, LeaseExpiry, MAX_PASSED_OVER, MAX_TOO_LARGE, TooLargeItem,
};
pub use self::ended_leases::{
    CancelResults, Cancellation, Cancelled, CancelledLease, EndedLease, Reaped, ReleasedClaims,
    TraceNote,
};
pub use self::facts::{Database, Facts};
pub use self::heartbeat::{Renewal, Renewed};
pub use self::inspect::Inspect;
pub(super) use self::inspect::inspect_by_field;
pub use self::latest_time::LatestTime;
pub use self::leases::Leases;
pub use self::new_items::{FollowUp, NewItem};
pub use self::queue_index::QueueIndex;
pub(crate) use self::settle::wants_owner;
pub use self::settle::{Ending, SettleResults, Settled, Settlement};
pub use self::step::{LeaseProof, LeaseRow, RowEnding, RowOperation, RowOutcome, step};
pub(crate) use self::step::{due_after, next_fence};
pub use self::suspects::{Holding, Share, share_of};
pub use self::upkeep::{Checkpoints, Upkeep};

/// A store that does everything.
pub trait Store: Facts + Inspect + Leases + Upkeep {}

impl<T: Facts + Inspect + Leases + Upkeep> Store for T {}
