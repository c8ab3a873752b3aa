//! The request to claim items, and its result.

use std::collections::HashSet;
use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::millis::millis_rounded_up;
use lease_broker_value::Value;
use uuid::Uuid;

/// The number of items that a claim looks at beyond those that it asks for, because some can be too large.
pub const MAX_PASSED_OVER: usize = 100;

/// The maximum number of entries in [`ClaimCall::groups`].
pub const MAX_CLAIM_GROUPS: usize = 100;

/// The maximum number of entries in [`Claimed::too_large`].
pub const MAX_TOO_LARGE: usize = 10;

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
    /// Only items of these groups, each as a key with one value, at most [`MAX_CLAIM_GROUPS`]. The call begins with the first. Empty: items
    /// of all groups and of none.
    pub groups: Vec<Key>,
    /// The maximum number of consecutive items of a strict group that the call leases together, as a run. The limit of the queue counts if
    /// it is smaller. 0 and 1: the call leases one item of a group.
    pub max_run: usize,
}

/// The result of one claim call.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the call"
)]
pub struct Claimed {
    /// The leased items, in the queue's order.
    pub items: Vec<ClaimedItem>,
    /// The size of these items together, estimated in bytes.
    pub bytes: usize,
    /// True: the items are the leases of an earlier call with the same request id.
    pub is_repeated: bool,
    /// The first items that were passed over because each is larger than [`ClaimCall::max_bytes`]. At most
    /// [`MAX_TOO_LARGE`].
    pub too_large: Vec<TooLargeItem>,
    /// The number of items that the call made dead, because they can never be leased: each is larger than
    /// [`max_leased_bytes`](lease_broker_model::queue::QueueSpec::max_leased_bytes), or has a full counter.
    pub made_dead: usize,
    /// True if further items may be ready for this call: the next one did not fit into the bytes that were left, or the call
    /// did not look at all of them.
    pub has_more: bool,
    /// True: the queue is paused, so the call got no new lease.
    pub is_paused: bool,
    /// True if ready items can have been kept from this call: because of suspects, or because the call named groups. Other calls may get
    /// them.
    pub is_held_back: bool,
    /// Why the call got fewer items than are ready, if groups, limits of the queue or suspects are the reason. With [`Self::has_more`], the
    /// walk over the groups was cut: the next operation goes on with it.
    pub limited: Option<Limited>,
    /// The cost of the call's turns, if the queue has groups or limits. If calls share a turn, the first of them has its cost.
    pub turn: TurnCost,
}

/// The cost of a turn: of a claim on a queue with groups or limits. Such claims run one after the other, at all brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCost {
    /// The number of groups that were looked at.
    pub visited: usize,
    /// Whether the walk over the groups was cut: the next operation goes on with it.
    pub is_cut: bool,
    /// The time until the claims of other brokers had ended. `None`: it is not known, as on SQLite, where all writes wait for each other.
    pub wait: Option<Duration>,
}

impl TurnCost {
    /// Adds the cost of another turn of the same call. The longest wait counts.
    pub(crate) fn add(&mut self, other: Self) {
        self.visited += other.visited;
        self.is_cut |= other.is_cut;
        self.wait = self.wait.max(other.wait);
    }
}

/// The reason why a call does not get ready items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Each group that has ready items is held back: by a lease, by an item before them, by a limit, or by a pause.
    GroupsBusy {
        /// The time until the rate of one of these groups allows an item. `None`: no group waits for its rate.
        wait: Option<Duration>,
    },
    /// The queue has as many leases as it may have.
    MaxLeases,
    /// The worker holds a suspect, or it holds leases while a suspect waits ([`share_of`](super::share_of)). No item need be ready.
    Suspects,
    /// The rate of the queue is used up.
    Rate {
        /// The time until the next item can be given out.
        wait: Duration,
    },
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
    /// The values of the columns that [`Facts::columns`](super::Facts::columns) names, as they are after the claim.
    pub columns: Vec<Value>,
    /// The W3C trace context of the producer, if the row has one.
    pub trace_parent: Option<String>,
    /// The checkpoint that an earlier attempt stored. `None`: there is none, or the queue has no checkpoints.
    pub checkpoint: Option<Vec<u8>>,
    /// The number of its run. The leases of a run have the same number, and [`Claimed::items`] has them side by side, in their order. 0:
    /// the call asked for no runs, or the item belongs to no group.
    pub run: u32,
}

/// Numbers and sorts the items of a call by their runs, in a queue whose claims give runs.
///
/// A call that is sent again need not ask for runs again. Two leases of one group show that the first call did.
pub(crate) fn restore_runs(call: &ClaimCall, items: &mut [ClaimedItem]) {
    let mut numbers = HashSet::new();
    let mut runs = items.iter().map(|item| item.run).filter(|run| *run > 0);
    let asked_for_runs = call.max_run > 1 || runs.any(|run| !numbers.insert(run));
    if !asked_for_runs {
        for item in items {
            item.run = 0;
        }
    } else if call.has_request_id {
        // Leases that are read again are not sorted by runs.
        items.sort_by_key(|item| (item.run == 0, item.run));
    }
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

impl LeaseExpiry {
    /// Returns the time of the claim that asked for a lease of `duration`, in milliseconds since 1970-01-01T00:00:00Z.
    ///
    /// A lease lasts its duration from the claim. A claim that is sent again finds its leases as they were, because a worker
    /// extends a lease only after it has received it.
    pub fn claim_time(self, duration: Duration) -> i64 {
        self.expire_time.saturating_sub(millis_rounded_up(duration))
    }
}
