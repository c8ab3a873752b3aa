//! The description of a queue: the table that holds its items, the columns, and the rules for leases and retries.
//!
//! These types are plain data. The configuration creates them, and the broker and the stores read them.

use std::time::Duration;

use lease_broker_value::Value;
use serde::Deserialize;

use crate::group::{Groups, QueueLimits};
use crate::item_state::{RetryPolicy, State};

/// One configured queue. `deploy/config.default.toml` documents the settings behind the fields.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    /// The name that clients send in calls.
    pub name: String,
    /// The table whose rows are the items.
    pub table: String,
    /// The one to three columns that identify a row. Empty: the columns of the table's primary key.
    pub key: Vec<String>,
    /// The columns that workers receive. `None`: all columns except the soft-lock columns.
    pub columns: Option<Vec<String>>,
    /// The order in which ready items are claimed.
    pub order: Order,
    /// The groups of items that keep an order or take turns. `None`: the queue has no groups.
    pub groups: Option<Groups>,
    /// The limits of leases and rates. The row of the queue in the database decides about their values.
    pub limits: QueueLimits,
    /// The default, shortest and longest duration of a lease.
    pub lease: LeaseBounds,
    /// The maximum number of attempts, and the delays between them.
    pub retry: RetryPolicy,
    /// The effect of a completion on the row.
    pub on_complete: OnComplete,
    /// The names of the soft-lock columns.
    pub soft_lock: SoftLock,
    /// The columns that a settlement may write into the row of its item. Empty: none.
    pub writable: Vec<String>,
    /// The columns by whose values operators can filter items. Empty: none.
    pub filterable: Vec<String>,
    /// The maximum size of a checkpoint, in bytes: 1 to 65,536. `None`: the queue has no checkpoints.
    pub max_checkpoint_bytes: Option<usize>,
    /// Columns of the table that the broker sets when an item changes its state.
    pub mirror: Vec<Mirror>,
    /// The columns, as name and SQL type, of a table that the broker creates. `None`: the table exists and is adopted.
    pub managed_columns: Option<Vec<(String, String)>>,
    /// True if the broker's indexes may be filtered by state. False: they are plain composite indexes.
    pub filtered_indexes: bool,
    /// True if an index holds the completed items by time, so that retention seeks old ones. It needs `filtered_indexes`.
    pub completed_index: bool,
    /// The way in which concurrent claims avoid each other's rows.
    pub claim_strategy: ClaimStrategy,
    /// The age at which a lease is reported in the log and in the metrics. `None`: no lease is reported.
    pub max_lease_age: Option<Duration>,
    /// The largest size of an item, estimated in bytes. See [`Self::max_leased_bytes`].
    pub max_item_bytes: usize,
    /// The largest size of a response, in bytes. See [`Self::max_leased_bytes`].
    pub max_response_bytes: usize,
    /// The time for which an Enqueue request with a request id is remembered.
    pub enqueue_memory: Duration,
    /// The ages after which items that have ended are deleted.
    pub keep_for: KeepFor,
    /// True if items that have ended may be deleted: the table is managed, or the configuration allows it.
    pub allows_purge: bool,
}

/// The ages after which items that have ended are deleted. `None`: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepFor {
    /// The age of completed items.
    pub completed: Option<Duration>,
    /// The age of dead items.
    pub dead: Option<Duration>,
    /// The age of rows in the archive, counted from their completion.
    pub archive: Option<Duration>,
}

impl KeepFor {
    /// Returns the shortest of the ages. `None`: nothing is ever deleted.
    pub fn shortest(&self) -> Option<Duration> {
        let ages = [self.completed, self.dead, self.archive];
        ages.into_iter().flatten().min()
    }
}

impl QueueSpec {
    /// Returns the largest size of an item that a claim can lease, in bytes. A claim makes a larger item dead: it would wait for ever.
    pub fn max_leased_bytes(&self) -> usize {
        self.max_item_bytes.min(self.max_response_bytes)
    }

    /// Returns the queue as a command sees it that only looks: without an archive, which such a command needs no right to read,
    /// and without the index of completed items, which only retention uses.
    #[must_use]
    pub fn to_inspect(&self) -> Self {
        Self {
            on_complete: OnComplete::Keep,
            keep_for: KeepFor::default(),
            completed_index: false,
            ..self.clone()
        }
    }

    /// Returns the queue as the end of all leases sees it: without the columns that this does not read, which a backup can lack, and
    /// without mirrors whose column the table lacks.
    #[must_use]
    pub fn to_end_leases(&self, has_column: impl Fn(&str) -> bool) -> Self {
        let mirror = self.mirror.iter();
        let mirror = mirror.filter(|mirror| has_column(&mirror.column));
        Self {
            mirror: mirror.cloned().collect(),
            columns: Some(Vec::new()),
            order: Order::By(Vec::new()),
            groups: None,
            writable: Vec::new(),
            filterable: Vec::new(),
            max_checkpoint_bytes: None,
            managed_columns: None,
            ..self.to_inspect()
        }
    }

    /// Returns whether both queues would store leases in the same columns of the same table.
    pub fn shares_rows_with(&self, other: &Self) -> bool {
        self.table.eq_ignore_ascii_case(&other.table) && self.shares_columns_with(other)
    }

    /// Returns whether both queues would store leases in the same columns if they had the same table.
    pub fn shares_columns_with(&self, other: &Self) -> bool {
        let is_shared = |name: &str| {
            let mut others = other.soft_lock_names();
            others.any(|other| other.eq_ignore_ascii_case(name))
        };
        self.soft_lock_names().any(is_shared)
    }

    /// Returns the soft-lock columns that the queue uses, in the order in which adoption adds them to a table.
    pub fn soft_lock_columns(&self) -> impl Iterator<Item = SoftLockColumn> + use<> {
        let has_checkpoints = self.max_checkpoint_bytes.is_some();
        let columns = SoftLockColumn::ALL.into_iter();
        columns.filter(move |column| *column != SoftLockColumn::Checkpoint || has_checkpoints)
    }

    /// Returns the rule of the queue's groups. Brokers with different rules must not serve a queue together.
    pub fn group_policy(&self) -> String {
        let groups = self.groups.as_ref();
        groups.map_or_else(|| "no groups".to_owned(), Groups::policy)
    }

    /// Returns whether claims take turns, because the queue has groups or limits.
    pub const fn takes_turns(&self) -> bool {
        self.groups.is_some() || !self.limits.is_none()
    }

    /// Returns whether a group can have more leases than its limit while no other group can give an item.
    pub fn groups_burst(&self) -> bool {
        self.groups.as_ref().is_some_and(Groups::bursts)
    }

    /// Returns the maximum number of consecutive items of a group that one claim can lease, as a run. 1: there are no runs.
    pub fn max_run(&self) -> usize {
        self.groups
            .as_ref()
            .map_or(1, |groups| groups.run() as usize)
    }

    /// Returns whether a claim writes the worker's id into a column of the team's own, which can refuse it.
    pub fn shows_worker(&self) -> bool {
        let mut mirrors = self.mirror.iter();
        mirrors.any(|mirror| mirror.state == State::Leased && mirror.value == MirrorValue::Worker)
    }

    /// Returns the names of the soft-lock columns that the queue uses.
    pub fn soft_lock_names(&self) -> impl Iterator<Item = &str> {
        self.soft_lock_columns()
            .map(|column| self.soft_lock.name(column))
    }
}

/// The way in which concurrent claims, from any number of brokers, avoid each other's rows.
///
/// `SQLite` ignores the setting: it allows one writer at a time, so claims never run concurrently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimStrategy {
    /// A claim skips rows that another claim has locked.
    #[default]
    SkipLocked,
    /// Claims on a table run one after another, under an application lock. For tables whose locked rows cannot be
    /// skipped.
    AppLock,
}

/// The order in which ready items are claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// No order: the store claims the rows that it finds first.
    None,
    /// By these columns and then by key. Empty: by key only.
    By(Vec<OrderColumn>),
}

/// A column that items are ordered by, with its direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderColumn {
    /// The column's name.
    pub column: String,
    /// True if larger values come first.
    pub descending: bool,
}

/// The allowed durations of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBounds {
    /// The duration if the worker's call names none.
    pub default: Duration,
    /// The shortest duration that a worker can ask for. At least 1 s.
    pub min: Duration,
    /// The longest duration that a worker can ask for. At most 12 h.
    pub max: Duration,
}

/// The effect of a completion on the item's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnComplete {
    /// The row stays in the table, in the state completed.
    Keep,
    /// The row is deleted.
    Delete,
    /// The row is moved to this table.
    Archive(String),
    /// The item becomes ready again after this delay.
    Recur(Duration),
}

impl OnComplete {
    /// Returns whether a completion removes the row from the table.
    pub const fn removes_row(&self) -> bool {
        matches!(self, Self::Delete | Self::Archive(_))
    }
}

/// A rule that sets one column of the table whenever an item enters a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// The state that the item enters.
    pub state: State,
    /// The column that is set.
    pub column: String,
    /// The value that the column is set to.
    pub value: MirrorValue,
}

/// The value that a mirror column is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum MirrorValue {
    /// A fixed value.
    Literal(Value),
    /// The time of the change, by the database's clock.
    Now,
    /// The id of the worker that holds the lease, or held it last.
    Worker,
}

/// The names of a queue's soft-lock columns, the columns in which the broker stores leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftLock {
    names: [String; 10],
    /// Whether the configuration names the column, even if by its default name.
    mapped: [bool; 10],
    /// The soft-lock columns of the other queues over the same table.
    others: Vec<String>,
}

/// A soft-lock column, by its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftLockColumn {
    /// The item's state as the number [`State::code`].
    State,
    /// The time of the last change of state.
    StateTime,
    /// The expiry of the lease, or the time at which a delayed item becomes ready.
    DueTime,
    /// The id of the worker that holds the lease. It stays after a completion, a failure or a cancellation. Release, expiry and redrive
    /// clear it.
    Owner,
    /// The lease token: random proof of the lease. All leases of one claim call have the same token.
    Token,
    /// The fencing token: a number that each claim of the item raises by 1. It is never reset.
    Fence,
    /// The number of attempts used.
    Attempt,
    /// The error text of the last failure.
    Error,
    /// The W3C trace context of the producer that added the item.
    TraceParent,
    /// The checkpoint that a worker stored for the next attempt. Only queues with checkpoints have it.
    Checkpoint,
}

impl SoftLockColumn {
    /// All soft-lock columns, in the order in which adoption adds them to a table.
    pub const ALL: [Self; 10] = [
        Self::State,
        Self::StateTime,
        Self::DueTime,
        Self::Owner,
        Self::Token,
        Self::Fence,
        Self::Attempt,
        Self::Error,
        Self::TraceParent,
        Self::Checkpoint,
    ];

    /// Returns the column's name if the queue's configuration gives no other name.
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
            Self::Checkpoint => "lease_checkpoint",
        }
    }
}

impl Default for SoftLock {
    fn default() -> Self {
        Self {
            names: SoftLockColumn::ALL.map(|column| column.default_name().to_owned()),
            mapped: [false; 10],
            others: Vec::new(),
        }
    }
}

impl SoftLock {
    /// Returns the name of `column` in this queue's table.
    pub fn name(&self, column: SoftLockColumn) -> &str {
        &self.names[column as usize]
    }

    /// Names `column`. The configuration says with it that the broker may use a column of this name that the table already has.
    pub fn map(&mut self, column: SoftLockColumn, name: String) {
        self.names[column as usize] = name;
        self.mapped[column as usize] = true;
    }

    /// Returns whether the configuration names `column`.
    pub fn is_mapped(&self, column: SoftLockColumn) -> bool {
        self.mapped[column as usize]
    }

    /// Adds the soft-lock columns of another queue over the same table, so that they are no data of this queue.
    pub fn add_other(&mut self, other: &QueueSpec) {
        self.others
            .extend(other.soft_lock_names().map(str::to_owned));
    }

    /// Returns whether `name` is a soft-lock column of this queue or of another one over the same table.
    pub fn is_of_any_queue(&self, name: &str) -> bool {
        let mut others = self.others.iter();
        self.contains(name) || others.any(|other| other.eq_ignore_ascii_case(name))
    }

    /// Returns whether `name` is the name of a soft-lock column, also of one that the queue does not use. The case of ASCII
    /// letters is ignored, as databases do.
    pub fn contains(&self, name: &str) -> bool {
        let mut names = self.names.iter();
        names.any(|own| own.eq_ignore_ascii_case(name))
    }
}
