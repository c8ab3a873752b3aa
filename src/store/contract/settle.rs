//! The request to end a lease, and its result.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::lease_trace::LeaseTrace;
use lease_broker_value::Value;

use super::ended_leases::EndedLease;
use super::new_items::FollowUp;
use crate::error::Refusal;

/// A request to end a lease.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The lease.
    pub lease: LeaseRef,
    /// The way in which it ends.
    pub ending: Ending,
    /// Values for columns of the item's row, which the statement that ends the lease writes. Only for completions and
    /// failures, and only columns that [`QueueSpec::writable`](lease_broker_model::queue::QueueSpec::writable) lists.
    pub columns: Vec<(String, Value)>,
    /// The checkpoint to store, as in [`Renewal`](super::Renewal), in the statement that ends the lease. Only for failures
    /// and releases, and only for queues with checkpoints. A completion removes the stored one.
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

/// Returns whether the worker of the lease is asked for.
pub(crate) fn wants_owner(settlement: &Settlement) -> bool {
    let trace = settlement.trace.as_deref();
    trace.is_some_and(|trace| trace.wants_owner)
}

/// The result of [`Leases::settle`](super::Leases::settle).
#[derive(Clone, Debug)]
pub struct SettleResults {
    /// The time at which leases ended, by the store's clock, in milliseconds since 1970-01-01T00:00:00Z. If the settlements
    /// took several transactions, that of the last one. `None`: no lease ended.
    pub time: Option<i64>,
    /// One result per settlement, in request order.
    pub results: Vec<Settled>,
    /// The worker that held the lease, for each settlement in the same order. `None`: the settlement did not end the lease, or
    /// its [`LeaseTrace::wants_owner`] is false.
    pub owners: Vec<Option<String>>,
    /// The leases that failures and releases ended together with their own: those of the later items of their runs. They were
    /// released.
    pub released: Vec<EndedLease>,
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

impl Settled {
    /// Returns the present state of the item if this settlement, or an earlier one of the same kind, has ended the lease.
    pub const fn state(&self) -> Option<State> {
        match self {
            Self::Ended(state) | Self::Repeated(state) => Some(*state),
            Self::Lost | Self::Gone | Self::Refused(_) => None,
        }
    }
}
