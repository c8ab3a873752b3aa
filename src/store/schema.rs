//! The contract of schema changes: what a queue's table lacks, and the statements that add it.

use crate::queue::QueueSpec;

use super::StoreError;

/// Plans and makes the changes that a table needs to be a queue.
pub trait Schema: Send {
    /// Returns the statements that turn the table as it is into `queue`, in order; empty if nothing is missing.
    fn plan(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError>;

    /// Runs one step, and tells `progress` how many rows have been changed so far.
    fn apply(&mut self, step: &Step, progress: &mut dyn FnMut(u64)) -> Result<(), StoreError>;

    /// Returns what `serve` would refuse the queue for, one sentence each; empty if it would not.
    fn check(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError>;
}

/// One statement of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is for.
    pub purpose: String,
    /// The statement, to be run as it stands.
    pub sql: String,
    /// Whether it changes a bounded number of rows and is to be run until it changes none.
    pub repeat: bool,
}
