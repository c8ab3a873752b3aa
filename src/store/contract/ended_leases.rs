//! Leases that are ended without their lease ids: cancelled, expired or released by their claim.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::trace_context::Span;

use crate::Problem;
use crate::error::Refusal;

/// The lease that a cancellation ends.
#[derive(Clone, Debug, PartialEq)]
pub struct CancelledLease {
    /// The key of the item.
    pub key: Key,
    /// The fencing token of the lease. `None`: the lease that is held, whichever it is.
    pub fence: Option<i64>,
}

impl From<Key> for CancelledLease {
    fn from(key: Key) -> Self {
        Self { key, fence: None }
    }
}

/// The state of items after their leases were cancelled.
#[derive(Clone, Debug)]
pub struct Cancellation {
    /// The delay until the items are ready; zero makes them ready immediately.
    pub delay: Duration,
    /// True: the items become dead. The delay is then unused.
    pub dead_letter: bool,
    /// The reason, stored in the rows.
    pub reason: String,
    /// The span of the call, for the spans of the leases. The store does not read it. `None`: the call is not recorded.
    pub call: Option<Span>,
}

/// The result of a cancellation for one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The operation has ended the lease.
    Ended {
        /// The new state of the item.
        state: State,
        /// The fencing token of the lease.
        fence: i64,
    },
    /// An earlier cancellation has ended the lease, and the item was not claimed since. Only for a lease that was named by its
    /// fencing token.
    Repeated {
        /// The present state of the item.
        state: State,
        /// The fencing token of the lease.
        fence: i64,
    },
    /// The item has no lease, or not the one with this fencing token. The present state of the item.
    NotHeld(State),
    /// There is no row with this key, or the value in its column of the state is not a state.
    NoRow,
    /// The key is malformed, or the row refuses the change. Nothing was changed.
    Refused(Refusal),
}

impl Cancelled {
    /// Returns the result of an entry whose key is that of an earlier one.
    pub fn repeated_key() -> Self {
        let problem = "another entry of the list has this key";
        Self::Refused(Refusal::of_field("key", problem))
    }

    /// Returns the present state of the item. `None`: there is no row with the key, or the entry is refused.
    pub const fn state(&self) -> Option<State> {
        match self {
            Self::Ended { state, .. } | Self::Repeated { state, .. } | Self::NotHeld(state) => {
                Some(*state)
            }
            Self::NoRow | Self::Refused(_) => None,
        }
    }
}

/// The result of [`Leases::cancel`](super::Leases::cancel).
#[derive(Clone, Debug, Default)]
pub struct CancelResults {
    /// One result per lease, in request order.
    pub results: Vec<Cancelled>,
    /// The cancelled leases.
    pub ended: Vec<EndedLease>,
    /// The leases of the later items of their runs, which were released with them.
    pub released: Vec<EndedLease>,
}

/// The result of [`Leases::release_claims`](super::Leases::release_claims).
#[derive(Clone, Debug, Default)]
pub struct ReleasedClaims {
    /// The number of released leases of each call, in request order.
    pub counts: Vec<usize>,
    /// The calls, by their index, that have to be sent again: another program has locked the row of one of their leases.
    pub locked: Vec<usize>,
    /// The released leases.
    pub ended: Vec<EndedLease>,
}

/// The result of [`Leases::reap`](super::Leases::reap).
#[derive(Clone, Debug, Default)]
pub struct Reaped {
    /// The expired leases that this run ended, the earliest due time first. The items that became ready join the list of suspects
    /// in this order.
    pub expired: Vec<EndedLease>,
    /// The leases that were released with them, or in their place: of the items of a run, only the first one counts an attempt.
    pub released: Vec<EndedLease>,
    /// The number of delayed items that became ready.
    pub promoted: usize,
    /// The rows that have to end their lease or delay, and that a constraint or a trigger does not let do so, with the reason. The run
    /// has left them as they were, and a later run tries again.
    pub refused: Vec<(Key, Problem)>,
    /// The time until the queue's next due time, zero if it has passed. `None`: no item is leased or delayed. Refused rows do not count.
    pub next_due: Option<Duration>,
    /// The time of the run by the store's clock, in milliseconds since 1970-01-01T00:00:00Z. `None`: no part of the run succeeded.
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
