//! The contract of schema changes: what a queue's table lacks, and the statements that add it.

use crate::queue::{QueueSpec, SoftLockColumn};

use super::StoreError;

/// Plans and makes the changes that a table needs to be a queue.
pub trait Schema: Send {
    /// Returns the statements that turn the table as it is into `queue`, in order; empty if nothing is missing.
    fn plan(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError>;

    /// Runs one step, and tells `progress` how many rows have been changed so far.
    fn apply(&mut self, step: &Step, progress: &mut dyn FnMut(u64)) -> Result<(), StoreError>;

    /// Returns the statements that take from the table what the queue has added to it, the leases with it; none if nothing
    /// is there. Soft-lock columns under names of their own stay: they may have been there before. So does the archive.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] for a managed queue, whose table is nothing but its items.
    fn plan_removal(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError>;

    /// Writes a step as a person runs it.
    fn script(&self, step: &Step) -> String;

    /// Returns what is not needed, but worth a thought, one sentence each.
    fn suggestions(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError>;

    /// Returns what `serve` would refuse the queue for, one sentence each; empty if it would not.
    fn check(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError>;
}

/// Says that a queue's table does not exist, nor does anything say how to make it.
pub(super) fn no_table(queue: &QueueSpec) -> StoreError {
    StoreError::Misconfigured(format!(
        "the table {:?} of queue {:?} does not exist; give the queue its columns (managed = {{ … }}) to have it made",
        queue.table, queue.name
    ))
}

/// Refuses to drop what a managed queue is made of.
pub(super) fn refuse_managed(queue: &QueueSpec) -> Result<(), StoreError> {
    match &queue.managed {
        None => Ok(()),
        Some(_) => Err(StoreError::Misconfigured(format!(
            "the table {:?} of queue {:?} is managed: it holds nothing but the queue's items; if you want to lose them, \
             drop the table yourself",
            queue.table, queue.name
        ))),
    }
}

/// Returns the soft-lock columns that a queue adds under their own names.
pub(super) fn own_columns(queue: &QueueSpec) -> impl Iterator<Item = &str> {
    SoftLockColumn::ALL
        .into_iter()
        .filter(|column| queue.soft_lock.name(*column) == column.default_name())
        .map(|column| queue.soft_lock.name(column))
}

/// One statement of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is for.
    pub purpose: String,
    /// The statement, to be run as it stands.
    pub sql: String,
    /// Whether it changes a bounded number of rows and is to be run until it changes none.
    pub until_no_rows: bool,
}
