//! The results that operators ask a store for: counts, ages and lists of items.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::Order;

/// The number of items in each state of a queue, and two ages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of items in each state, in the order of [`State::ALL`].
    pub count: [u64; 5],
    /// For each state, in the same order: true if the state can have more items than were counted.
    pub is_lower_bound: [bool; 5],
    /// The time since the oldest ready item became ready. Rows that other programs inserted have no known age and are
    /// left out. `None`: no ready item has a known age.
    pub oldest_ready: Option<Duration>,
    /// The time since the oldest lease was claimed. `None`: no item is leased.
    pub oldest_lease: Option<Duration>,
    /// True if `oldest_ready` is the age of the oldest of a sample, because there are more ready items.
    pub oldest_ready_is_sampled: bool,
    /// True if `oldest_lease` is the age of the oldest of a sample, because there are more leases.
    pub oldest_lease_is_sampled: bool,
}

impl Stats {
    /// The maximum number of items of a state that are counted exactly. The count of a larger state is a lower bound
    /// or, if the server stores one, an estimate.
    pub const COUNT_LIMIT: u64 = 10_000;

    /// The number of ready items at each end of the queue's order among which the oldest is searched.
    pub(crate) const READY_SAMPLE: u64 = 1_000;

    /// Records whether the ages are those of samples. The items have been counted. `leases`: the number of leases that were looked at.
    pub(crate) fn set_sampled(&mut self, order: &Order, leases: u64) {
        let ready = match order {
            Order::None => Self::READY_SAMPLE,
            Order::By(_) => 2 * Self::READY_SAMPLE,
        };
        self.oldest_ready_is_sampled = self.count_of(State::Ready) > ready;
        self.oldest_lease_is_sampled =
            self.count_of(State::Leased) > leases || self.is_lower_bound(State::Leased);
    }

    /// Returns the states whose oldest item was searched in a sample.
    pub fn sampled_states(&self) -> impl Iterator<Item = State> {
        let ready = self.oldest_ready_is_sampled.then_some(State::Ready);
        let leased = self.oldest_lease_is_sampled.then_some(State::Leased);
        ready.into_iter().chain(leased)
    }

    /// Returns the number of items in `state`.
    pub fn count_of(&self, state: State) -> u64 {
        self.count[state as usize]
    }

    /// Returns the number of items in `state`. `None`: only the first rows of several states were looked at, and the number of items
    /// among them says nothing about the state.
    pub fn known_count_of(&self, state: State) -> Option<u64> {
        let count = self.count_of(state);
        let is_known = !self.is_lower_bound(state) || count >= Self::COUNT_LIMIT;
        is_known.then_some(count)
    }

    /// Returns true if `state` can have more items than [`Self::count_of`] returns.
    pub fn is_lower_bound(&self, state: State) -> bool {
        self.is_lower_bound[state as usize]
    }
}

/// One item in a list for operators.
#[derive(Clone, Debug)]
pub struct ListedItem {
    /// The key of the item.
    pub key: Key,
    /// The id of the worker that holds the item, or that completed or failed it last.
    pub owner: Option<String>,
    /// The time since the item entered its state. `None` for rows that other programs inserted.
    pub age: Option<Duration>,
    /// The time at which the item entered its state, by the store's clock, in milliseconds since 1970-01-01T00:00:00Z. `None` like
    /// [`Self::age`].
    pub state_time: Option<i64>,
    /// The time until the due time, zero if it has passed. `None`: the item has no due time.
    pub due_in: Option<Duration>,
    /// The due time by the same clock.
    pub due_time: Option<i64>,
    /// The number of attempts used.
    pub attempt: u32,
    /// The fencing token, which counts the claims of the item.
    pub fence: i64,
    /// The description of the last failure.
    pub error: Option<String>,
}

/// Returns the number of attempts of a row. Another program may have written a negative number, which counts as 0.
pub(crate) fn attempts_of(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}
