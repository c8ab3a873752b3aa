//! The groups of a queue as operators see them.

use lease_broker_model::group::{GroupOrder, Groups};
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::named_enum;

use super::contract::GroupPause;

named_enum! {
    /// The state of a group.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum GroupState {
        /// The next claim can lease an item of it, unless a rate or the limit of the queue holds it back.
        Ready = "ready",
        /// It has as many leases as it may have, or it has leases and no ready item.
        Leased = "leased",
        /// Its first item is delayed.
        Waiting = "waiting",
        /// Its first item is dead, and the queue halts groups at dead items.
        Halted = "halted",
        /// An operator has paused it.
        Paused = "paused",
    }
}

/// The item that decides about the state of a group: in a strict group the leased one, or else the first one; in another group the
/// first ready one, or else a leased or a delayed one. Times are by the store's clock, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupHead {
    /// The key.
    pub key: Key,
    /// The state.
    pub state: State,
    /// The time since which the item is in this state. `None`: it is unknown.
    pub state_time: Option<i64>,
    /// The time at which the lease expires, or at which the delayed item becomes ready. `None`: the item is ready or dead.
    pub due_time: Option<i64>,
}

/// A group with its state.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedGroup {
    /// The value of the column that names groups, as a key with one value.
    pub group: Key,
    /// The state.
    pub state: GroupState,
    /// The number of leases, counted up to [`ListedGroup::MAX_COUNT`].
    pub leases: usize,
    /// The item that decides. `None`: a paused group without items that could be claimed.
    pub head: Option<GroupHead>,
    /// The pause.
    pub pause: Option<GroupPause>,
}

/// A request for a page of groups.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSearch {
    /// The group with which the page before ended. `None`: the first page.
    pub after: Option<Key>,
    /// Only groups in this state.
    pub state: Option<GroupState>,
    /// The maximum number of groups.
    pub limit: usize,
    /// The maximum number of groups that are looked at.
    pub max_examined: usize,
}

/// A page of groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundGroups {
    /// The groups, in the order of their values.
    pub groups: Vec<ListedGroup>,
    /// The last group that was looked at. `None`: there are no more.
    pub end: Option<Key>,
    /// The store's clock, in milliseconds since 1970-01-01T00:00:00Z.
    pub now: i64,
}

impl ListedGroup {
    /// The maximum number of leases that are counted.
    pub const MAX_COUNT: usize = Groups::MAX_LEASES as usize;

    /// Returns a group. `max_leases`: the limit of leases of a group that the row of the queue has, or 0. `None`: the group has no
    /// items and no pause.
    pub(super) fn new(
        group: Key,
        (order, max_leases): (GroupOrder, usize),
        leases: usize,
        head: Option<GroupHead>,
        pause: Option<GroupPause>,
    ) -> Option<Self> {
        let is_full =
            matches!(order, GroupOrder::Parallel { .. }) && max_leases > 0 && leases >= max_leases;
        let state = match (&pause, head.as_ref().map(|head| head.state)) {
            (Some(_), _) => GroupState::Paused,
            (None, Some(State::Ready)) if !is_full => GroupState::Ready,
            (None, Some(State::Ready | State::Leased)) => GroupState::Leased,
            (None, Some(State::Delayed)) => GroupState::Waiting,
            (None, Some(State::Dead)) => GroupState::Halted,
            (None, Some(State::Completed) | None) => return None,
        };
        Some(Self {
            group,
            state,
            leases,
            head,
            pause,
        })
    }
}

impl GroupSearch {
    /// Returns whether a group fits.
    pub(super) fn fits(&self, group: &ListedGroup) -> bool {
        self.state.is_none_or(|state| state == group.state)
    }
}
