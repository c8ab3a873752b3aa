//! The facts about one item that decide if it is claimed: its row, its place in the queue, locks of other programs, and the
//! brokers that run.

use std::time::Duration;

use lease_broker_model::item_state::State;

use super::{Instance, Limited, ListedGroup, QueuePause};

/// The result of [`Browse::item_facts`](super::Browse::item_facts). All times are by the store's clock, in milliseconds since
/// 1970-01-01T00:00:00Z.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemFacts {
    /// The time at which the row was read.
    pub now: i64,
    /// The row with the key. `None`: the table has no such row.
    pub row: Option<ItemRow>,
    /// True if the table has no row with the key, and has rows with NULL in a key column. Such a row has no key.
    pub has_null_keys: bool,
    /// The lock with which another program stops claims of the item. `None`: no such lock was found.
    pub lock: Option<ForeignLock>,
    /// The pause that holds the claims of the queue. `None`: there is none, or the login may not read it.
    pub pause: Option<QueuePause>,
    /// The limit of the queue that is reached now, if the item is ready: [`Limited::MaxLeases`] or [`Limited::Rate`].
    pub limited: Option<Limited>,
    /// The group of the item, if the item is ready. `None`: it has no group, or names of such groups cannot be sent.
    pub group: Option<ListedGroup>,
    /// The brokers that announced themselves to the database within the last 15 s. `None`: the list of the brokers does not exist,
    /// or the login may not read it.
    pub brokers: Option<Vec<Instance>>,
}

impl ItemFacts {
    /// The maximum number of items ahead of a ready item that are counted.
    pub const AHEAD_LIMIT: usize = 1_000;
}

/// The row of an item, without the columns of the table's own.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemRow {
    /// The state. `None`: the column has a value that is no state.
    pub state: Option<State>,
    /// The worker that holds the item, that completed or failed it, or whose lease was cancelled.
    pub owner: Option<String>,
    /// The time of the last change of the state. `None`: it is unknown, because another program inserted the row.
    pub state_time: Option<i64>,
    /// The time when the lease expires, or when the delayed item becomes ready.
    pub due_time: Option<i64>,
    /// The number of attempts used.
    pub attempt: i64,
    /// The fencing token, which counts the claims of the item.
    pub fence: i64,
    /// The last error, or the reason of a cancellation.
    pub error: Option<String>,
    /// Whether the row has a lease token.
    pub has_token: bool,
    /// The number of ready items that claims take first. `None`: the item is not ready, or claims skip it because another
    /// program has locked it.
    pub ahead: Option<Ahead>,
}

/// A number of items, counted up to [`ItemFacts::AHEAD_LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Exactly this number.
    Exactly(usize),
    /// This number or more.
    AtLeast(usize),
}

impl Ahead {
    /// Returns the number of items ahead. `position`: the position of the item among the first [`ItemFacts::AHEAD_LIMIT`] + 1 ready
    /// items, from 0. `ready`: the number of these items.
    pub(super) fn new(position: Option<usize>, ready: usize) -> Option<Self> {
        match position {
            Some(position) => Some(Self::Exactly(position)),
            None if ready > ItemFacts::AHEAD_LIMIT => Some(Self::AtLeast(ItemFacts::AHEAD_LIMIT)),
            None => None,
        }
    }
}

/// The lock of a program that is no broker, or of a broker that hangs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeignLock {
    /// A transaction has locked the row.
    Row(Option<BlockingSession>),
    /// Another connection holds the write lock of the SQLite file.
    File,
}

/// The session on a database server whose transaction holds a lock. `None` in [`ForeignLock::Row`]: the server does not tell, or
/// the login may not see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingSession {
    /// The number of the session, as `KILL` takes it.
    pub id: i64,
    /// The login.
    pub login: Option<String>,
    /// The host of the program.
    pub host: Option<String>,
    /// The name that the program gave.
    pub program: Option<String>,
    /// The time since the session's last request began.
    pub since_request: Option<Duration>,
}
