//! The results that operators ask a store for: counts, ages and lists of items.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;

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
}

impl Stats {
    /// The maximum number of items of a state that are counted exactly. The count of a larger state is a lower bound
    /// or, if the server stores one, an estimate.
    pub const COUNT_LIMIT: u64 = 10_000;

    /// Returns the number of items in `state`.
    pub fn count_of(&self, state: State) -> u64 {
        self.count[state as usize]
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
