//! The contract of schema changes: planning, checking and making the changes that turn a table into a queue, and back.

use std::collections::VecDeque;

use lease_broker_model::queue::QueueSpec;

use super::{BrokerList, StoreError, Survey, uses};

pub use super::epoch::{CancelledOperation, NewEpoch};

/// The number of rows that [`Schema::values`] reads at most.
pub const SAMPLED_ROWS: u64 = 100_000;

/// Schema changes of one database. The commands `schema plan`, `apply`, `check` and `drop` use it.
pub trait Schema: Send {
    /// Returns the steps that turn the table, as it is now, into `queue`, in the order to run them. Empty if the table
    /// lacks nothing. Changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if no step can help: the table does not exist and the queue is not managed, or the
    /// queue names columns that the table lacks.
    fn plan(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError>;

    /// Runs one step. After each run of a statement that runs repeatedly, calls `progress`. No transaction is open then, so the
    /// caller may rest.
    fn apply(&mut self, step: &Step, progress: &mut dyn FnMut(Progress)) -> Result<(), StoreError>;

    /// Returns the number of rows of the queue's table, counted or from the server's statistics.
    fn count_rows(&mut self, queue: &QueueSpec) -> Result<u64, StoreError>;

    /// Creates the broker's own tables, `lease_broker_*`, or brings them up to date.
    fn create_broker_tables(&mut self) -> Result<(), StoreError>;

    /// Returns the steps that remove from the table the parts that adoption added and recorded: indexes, soft-lock columns, and
    /// with them all leases and states. Changes nothing. The highest fencing token and the archive stay.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] for a managed queue: its table contains only the queue's items.
    fn plan_removal(&mut self, queue: &QueueSpec) -> Result<Removal, StoreError>;

    /// Returns the reasons against removing the queue's parts now, one sentence each: leases that are held, and brokers that run
    /// on the database.
    fn uses(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        let held = uses::held_leases(queue, self.held_leases(queue)?);
        Ok(held.into_iter().chain(self.live_brokers()?).collect())
    }

    /// Returns the number of the queue's leases that are held, up to 1,000.
    fn held_leases(&mut self, queue: &QueueSpec) -> Result<i64, StoreError>;

    /// Returns a sentence for each broker that runs on the database.
    fn live_brokers(&mut self) -> Result<Vec<String>, StoreError> {
        let list = self.brokers()?;
        Ok(list.as_ref().map(uses::running_brokers).unwrap_or_default())
    }

    /// Returns the brokers that were seen on the database within the last day. `None`: no broker has used the SQLite file.
    fn brokers(&mut self) -> Result<Option<BrokerList>, StoreError>;

    /// Begins a new epoch after a restore: every later fencing token is greater than every earlier one. Ends the leases of the
    /// queues. Their attempts do not count, and settlements of these leases find them lost. Brokers must not run meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the clock of this machine is behind the beginning of the last epoch.
    fn begin_epoch(&mut self, queues: &[QueueSpec]) -> Result<NewEpoch, StoreError>;

    /// Returns the names of the tables that could become queues: all but the broker's own. In alphabetical order.
    fn tables(&mut self) -> Result<Vec<String>, StoreError>;

    /// Describes a table. `None`: it does not exist.
    fn survey(&mut self, table: &str) -> Result<Option<Survey>, StoreError>;

    /// Returns up to `limit` different values of a column as text, except NULL, each with its number of rows. Reads only the
    /// first [`SAMPLED_ROWS`] rows.
    fn values(
        &mut self,
        table: &str,
        column: &str,
        limit: usize,
    ) -> Result<Vec<(String, u64)>, StoreError>;

    /// Returns the effect of a step on other programs while it runs, as a phrase such as "writers wait for a moment".
    fn lock(&self, step: &Step) -> &'static str;

    /// Renders a step as a script to run by hand, with its purpose as a comment.
    fn script(&self, step: &Step) -> String;

    /// Returns the properties of the table and of its dependents that slow the queue down or that refuse completions, one
    /// sentence each. `serve` accepts them.
    fn warnings(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError>;

    /// Returns optional improvements to the table or its database, one sentence each.
    fn suggestions(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError>;

    /// Returns the names of the enabled triggers that changes of the queue's rows run, each with its table.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the database has only triggers for one row, which need no trial.
    fn triggers(&mut self, _queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        Err(StoreError::Misconfigured(
            "triggers are tried on SQL Server only: a trigger of SQLite runs for one row at a time"
                .to_owned(),
        ))
    }

    /// Runs the triggers with changes like those of a broker, each in a transaction that is rolled back.
    ///
    /// # Errors
    /// Those of [`Schema::triggers`].
    fn try_triggers(&mut self, queue: &QueueSpec) -> Result<Vec<Trial>, StoreError> {
        self.triggers(queue).map(|_| Vec::new())
    }

    /// Returns the reasons for which `serve` would refuse the queue, one sentence each. Empty if `serve` would accept it.
    fn check(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError>;
}

/// Makes the changes that a queue lacks: runs each step of its plan by `apply`. Returns whether changes were missing.
///
/// Other programs can make the same changes at the same time. If a step fails and a new plan does not contain it any more, another
/// program has made it, and the new plan goes on.
///
/// # Errors
/// Those of [`Schema::plan`], and the error of the first step that fails and is still missing.
pub fn apply_missing<E: From<StoreError>>(
    schema: &mut dyn Schema,
    queue: &QueueSpec,
    mut apply: impl FnMut(&mut dyn Schema, &Step) -> Result<(), E>,
) -> Result<bool, E> {
    let mut steps = VecDeque::from(schema.plan(queue)?);
    let lacked_changes = !steps.is_empty();
    while let Some(step) = steps.pop_front() {
        let Err(error) = apply(schema, &step) else {
            continue;
        };
        steps = match schema.plan(queue) {
            Ok(left) if left.iter().all(|other| other.purpose != step.purpose) => left.into(),
            _ => return Err(error),
        };
    }
    Ok(lacked_changes)
}

/// The progress of a step that runs repeatedly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The rows that were read so far. On SQLite only those that were changed are known.
    pub visited: u64,
    /// The rows that were changed so far.
    pub changed: u64,
}

/// A change that was made and rolled back to run triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The change, such as "UPDATE of 2 rows".
    pub change: String,
    /// What came of it.
    pub outcome: TrialOutcome,
}

/// The outcome of a [`Trial`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialOutcome {
    /// The triggers run without an error.
    Passed,
    /// The change itself cannot be made, for the given reason, so that it ran no trigger.
    NotTried(String),
    /// The triggers fail with this error of the server.
    Failed(String),
}

/// The removal of the parts that adoption added to a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// The steps, in the order to run them. Empty if there is nothing to remove.
    pub steps: Vec<Step>,
    /// One sentence for each part that has the name of a part of the queue and that stays, because it is not on record.
    pub kept: Vec<String>,
}

/// One statement of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The purpose, as a phrase such as "add the ready index".
    pub purpose: String,
    /// The statement, complete. A step that adds or drops a part has a second statement, which changes the record of added
    /// parts. Both belong into one transaction.
    pub sql: String,
    /// Whether the statement changes a limited number of rows, and must run again until no rows are left.
    pub until_no_rows: bool,
    /// The statements by which the store itself makes the change. `None`: by `sql`.
    pub walk: Option<StepWalk>,
    /// Whether the statement reads all rows of the table once.
    pub reads_all_rows: bool,
}

/// The statements of a step that walks through a table in the order of the key. They have the values of a key as ?1 to ?3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepWalk {
    /// Returns the keys of the first rows to change.
    pub first: String,
    /// Returns the keys of the rows to change after a key.
    pub next: String,
    /// Changes the row of a key.
    pub change: String,
    /// Returns a row if that of a key is still to change.
    pub left: String,
}

impl Step {
    /// Returns a step that runs once.
    pub(super) fn once(purpose: String, sql: String) -> Self {
        Self {
            purpose,
            sql,
            until_no_rows: false,
            walk: None,
            reads_all_rows: false,
        }
    }

    /// Returns the step, marked as one that reads all rows.
    pub(super) fn reading_all_rows(self) -> Self {
        Self {
            reads_all_rows: true,
            ..self
        }
    }
}
