//! Operations on many items: rows that any broker runs on, batch by batch.
//!
//! The store keeps the row of an operation and applies its batches. The broker finds the items of a batch with
//! [`Browse::find_items`](super::Browse::find_items). A batch changes items and the row in one transaction, so a broker that is
//! killed neither repeats a batch nor loses one.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::named_enum;
use uuid::Uuid;

use super::ended_leases::{Cancellation, EndedLease};

named_enum! {
    /// The kind of an operation. A queue runs one of each kind at a time. The database has the names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OperationKind {
        /// Makes dead items ready.
        Redrive = "redrive",
        /// Takes leases away.
        CancelLeases = "cancel_leases",
        /// Deletes items that have ended.
        Purge = "purge",
    }
}

named_enum! {
    /// The state of an operation. Each is at its number in the database.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OperationState {
        /// It runs, or waits for a broker.
        Running = "running",
        /// It has visited every item.
        Done = "done",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// It cannot continue.
        Failed = "failed",
    }
}

impl OperationState {
    /// Returns the number in the database.
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// Returns the state with this number in the database. `None`: there is none.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }
}

/// A request to start an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOperation {
    /// The id, which the caller has chosen.
    pub id: Uuid,
    /// The kind.
    pub kind: OperationKind,
    /// All that the operation does, in a form of the broker. Two requests with one id are the same if their definitions are equal.
    pub definition: String,
    /// The name of the caller. Empty: it is not known.
    pub actor: String,
    /// The reason, at most 1,024 characters.
    pub reason: String,
}

/// The result of [`Operate::start_operation`](super::Operate::start_operation).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartedOperation {
    /// The operation is stored. Any broker runs it.
    Started(Operation),
    /// An earlier call has stored the same operation. Its present state.
    Repeated(Operation),
    /// An operation with this id exists, and is another one.
    OtherDefinition,
    /// The queue runs this operation of the same kind.
    Running(Operation),
}

/// The row of an operation. Times are by the store's clock, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The id.
    pub id: Uuid,
    /// The name of the queue.
    pub queue: String,
    /// The name of its [`OperationKind`], or of one that a newer broker knows.
    pub kind: String,
    /// See [`NewOperation::definition`].
    pub definition: String,
    /// The name of the caller who started it.
    pub actor: String,
    /// The reason.
    pub reason: String,
    /// The time at which it was stored. It changes only items that entered their state before. See [`Operation::was_stored_before`].
    pub create_time: i64,
    /// The state.
    pub state: OperationState,
    /// The time at which it ended. `None`: it runs.
    pub end_time: Option<i64>,
    /// The number of batches that were applied.
    pub batches: i64,
    /// The place at which the next batch begins, in a form of the broker. `None`: at the beginning.
    pub position: Option<String>,
    /// The number of rows that were looked at.
    pub examined: i64,
    /// The number of items that were changed.
    pub changed: i64,
    /// The number of items that the database refused to change.
    pub refused: i64,
    /// The first refusal, or the reason for its failure.
    pub error: Option<String>,
    /// The broker that runs it.
    pub holder: Option<Uuid>,
    /// The name of the caller who cancelled it.
    pub cancelled_by: Option<String>,
}

impl Operation {
    /// Returns whether an item entered its state after the operation was stored, so that the operation leaves it out. `now`: the store's
    /// clock. A state time after now is from before the clock was put back, and so from before the operation.
    pub const fn was_stored_before(&self, state_time: i64, now: i64) -> bool {
        self.create_time < state_time && state_time <= now
    }
}

/// The change that a batch makes to each of its items.
#[derive(Clone, Debug)]
pub enum ItemChange {
    /// Makes dead items ready, or delayed.
    Redrive {
        /// The delay until they are ready; zero makes them ready immediately.
        delay: Duration,
        /// True: they keep their attempts.
        keep_attempts: bool,
        /// Whether the items keep their checkpoints. It has no effect on a queue without checkpoints.
        checkpoints: Checkpoints,
    },
    /// Takes leases away.
    Cancel(Cancellation),
    /// Deletes items of this state, completed or dead.
    Purge(State),
}

/// Whether items that are redriven keep their checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkpoints {
    /// The next attempt gets them.
    #[default]
    Keep,
    /// They are removed.
    Clear,
}

/// A batch of an operation. An item is changed only if it has its state and its fencing token still, and entered the state not after
/// the operation was stored.
#[derive(Clone, Debug)]
pub struct OperationBatch {
    /// The id of the operation.
    pub id: Uuid,
    /// The broker that runs it.
    pub holder: Uuid,
    /// The number of batches before this one.
    pub number: i64,
    /// The time for which the broker keeps the operation, from now.
    pub hold_for: Duration,
    /// The change.
    pub change: ItemChange,
    /// The items with their fencing tokens, at most 500. It can be empty.
    pub items: Vec<(Key, i64)>,
    /// The place at which the next batch begins.
    pub position: Option<String>,
    /// The number of rows that were looked at for this batch.
    pub examined: i64,
    /// The number of items that were refused before this batch. They are not among `items`.
    pub refused: i64,
    /// The refusal. It is stored unless the row has one.
    pub error: Option<String>,
    /// The state in which the operation ends with this batch. `None`: it goes on.
    pub end: Option<OperationState>,
}

/// The result of [`Operate::apply_batch`](super::Operate::apply_batch).
#[derive(Clone, Debug, Default)]
pub struct AppliedBatch {
    /// The number of changed items. `None`: nothing was changed, because the operation has ended, another broker runs it, or a
    /// batch with this number was applied before.
    pub changed: Option<usize>,
    /// The leases that were cancelled.
    pub ended: Vec<EndedLease>,
    /// The leases of the later items of their runs, which were released with them.
    pub released: Vec<EndedLease>,
}

/// What the database asks of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerOrders {
    /// True: an operator told it to drain.
    pub drain: bool,
    /// The operations that run and that no other broker holds, the oldest first. One whose batch is being applied can be left out.
    pub operations: Vec<Operation>,
}
