//! What a queue is: a named view of one table, with its rules. Plain data; configuration makes it, the broker and the
//! store read it.

use std::time::Duration;

use serde::Deserialize;

use crate::item_state::{RetryPolicy, State};
use crate::value::Value;

/// A queue, as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    /// The name that clients use.
    pub name: String,
    /// The table whose rows are the items.
    pub table: String,
    /// One to three columns that identify a row; empty: the table's primary key.
    pub key: Vec<String>,
    /// The columns handed to workers; none: all that are not soft-lock columns.
    pub columns: Option<Vec<String>>,
    /// Which items are claimed first.
    pub order: Order,
    /// How long leases last.
    pub lease: LeaseBounds,
    /// Attempts and backoff.
    pub retry: RetryPolicy,
    /// What completion does to the row.
    pub on_complete: OnComplete,
    /// The soft-lock columns' names.
    pub soft_lock: SoftLock,
    /// Columns of the table's own that follow the state.
    pub mirror: Vec<Mirror>,
    /// For a table that the broker makes: its columns and their types. None: the table is adopted.
    pub managed: Option<Vec<(String, String)>>,
    /// Whether indexes may be filtered by state; plain composite ones otherwise.
    pub filtered_indexes: bool,
    /// How claims that run at the same time keep apart.
    pub claim_strategy: ClaimStrategy,
}

impl QueueSpec {
    /// Returns whether both queues would keep leases in the same columns of the same table.
    pub fn shares_rows_with(&self, other: &Self) -> bool {
        let shared = |name: &String| other.soft_lock.contains(name);
        self.table.eq_ignore_ascii_case(&other.table) && self.soft_lock.0.iter().any(shared)
    }
}

/// How claims that run at the same time, in any broker, keep apart. `SQLite` has one writer at a time and needs neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimStrategy {
    /// Each passes over the rows that others have locked.
    #[default]
    SkipLocked,
    /// They take turns, by an application lock of the table: for tables where rows can't be passed over.
    AppLock,
}

/// The order in which ready items are claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Whatever the store finds first.
    None,
    /// By these columns, then by key; empty: by key.
    By(Vec<OrderColumn>),
}

/// A column of the order, with its direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderColumn {
    /// The column.
    pub column: String,
    /// Whether larger values come first.
    pub descending: bool,
}

/// How long a lease may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBounds {
    /// When the worker does not say.
    pub default: Duration,
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

/// What becomes of a completed item's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnComplete {
    /// It stays, in the state completed.
    Keep,
    /// It is deleted.
    Delete,
    /// It moves to this table.
    Archive(String),
    /// It is ready again after this long.
    Recur(Duration),
}

/// Sets one column of the table's own whenever an item enters `state`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// The state entered.
    pub state: State,
    /// The column set.
    pub column: String,
    /// What it is set to.
    pub value: MirrorValue,
}

/// What a mirror column is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum MirrorValue {
    /// A fixed value.
    Literal(Value),
    /// The moment of the change, by the database's clock.
    Now,
    /// The worker that holds, or held, the lease.
    Worker,
}

/// The names of the soft-lock columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftLock([String; 9]);

/// One of the soft-lock columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftLockColumn {
    /// The state, as [`State::code`].
    State,
    /// When the state last changed.
    StateTime,
    /// Expiry while leased, ready-from while delayed.
    DueTime,
    /// The worker's id.
    Owner,
    /// One per claim call.
    Token,
    /// One more at each claim, never reset.
    Fence,
    /// Attempts used.
    Attempt,
    /// The last failure.
    Error,
    /// The producer's W3C trace context.
    TraceParent,
}

impl SoftLockColumn {
    /// All of them, in the order in which they are added to a table.
    pub const ALL: [Self; 9] = [
        Self::State,
        Self::StateTime,
        Self::DueTime,
        Self::Owner,
        Self::Token,
        Self::Fence,
        Self::Attempt,
        Self::Error,
        Self::TraceParent,
    ];

    /// Returns the column's name where a queue's configuration gives it no other.
    pub const fn default_name(self) -> &'static str {
        match self {
            Self::State => "lease_state",
            Self::StateTime => "lease_state_time",
            Self::DueTime => "lease_due_time",
            Self::Owner => "lease_owner",
            Self::Token => "lease_token",
            Self::Fence => "lease_fence",
            Self::Attempt => "lease_attempt",
            Self::Error => "lease_error",
            Self::TraceParent => "trace_parent",
        }
    }
}

impl Default for SoftLock {
    fn default() -> Self {
        Self(SoftLockColumn::ALL.map(|column| column.default_name().to_owned()))
    }
}

impl SoftLock {
    /// Returns the name of `column` in this queue's table.
    pub fn name(&self, column: SoftLockColumn) -> &str {
        &self.0[column as usize]
    }

    /// Gives `column` another name.
    pub fn rename(&mut self, column: SoftLockColumn, name: String) {
        self.0[column as usize] = name;
    }

    /// Returns whether `name` is one of the soft-lock columns; databases ignore the case of ASCII letters.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}
