//! Group commit: one thread runs all writes, several in one transaction.
//!
//! The thread takes the operations that have arrived, of all queues, and runs them in one transaction. Their callers are
//! answered when the device has the transaction (`flusher.rs`).
//!
//! The operations stay independent. If one fails, its changes are undone and the others are still committed.
//!
//! An operation begins when the thread has the file's write lock. Until then it can be withdrawn.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::error::{broken_constraint, classify};
use super::flusher::{Flusher, Unanswered};
use super::left_out::LeftOut;
use super::write_context::WriteContext;
use crate::withdrawal::{Beginning, Withdrawals};
use crate::{Outage, OutageCause, Problem, ProblemKind, Rejection, StoreError};

/// The maximum number of operations in one transaction. It limits the time that the first one waits for the last.
const MAX_GROUP_WRITES: usize = 64;

/// An operation that the writer thread runs and answers.
trait WriteOperation: Send {
    /// Begins the operation. Returns false if it was withdrawn, and its caller has been answered.
    fn begin(&self) -> bool;
    /// Runs the operation and returns true if its changes may be committed. Runs again if a transaction that it was
    /// part of was rolled back.
    fn run(&mut self, context: &WriteContext) -> bool;
    /// Returns whether the last run failed because the database refused a change.
    fn was_rejected(&self) -> bool;
    /// Makes the operation commit row by row. Returns false if it does so already, or cannot.
    fn commit_rows(&self) -> bool;
    /// Sends the result to the caller. `committed` is the result of the transaction.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// An operation with its last result and its caller.
struct PendingWrite<T, F> {
    operation: F,
    left_out: LeftOut,
    beginning: Beginning,
    result: Option<Result<T, StoreError>>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> WriteOperation for PendingWrite<T, F>
where
    T: Send,
    F: Fn(&WriteContext, &LeftOut) -> Result<T, StoreError> + Send,
{
    fn begin(&self) -> bool {
        self.beginning.begin()
    }

    fn run(&mut self, context: &WriteContext) -> bool {
        let result = (self.operation)(context, &self.left_out);
        let may_commit = result.is_ok();
        self.result = Some(result);
        may_commit
    }

    fn was_rejected(&self) -> bool {
        matches!(
            self.result,
            Some(Err(StoreError::Rejected(_) | StoreError::Misconfigured(_)))
        )
    }

    fn commit_rows(&self) -> bool {
        self.left_out.commit_rows()
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        // The error of the operation tells more than the error of the transaction that it broke.
        let result = match (self.result, committed) {
            (Some(Err(error)), _) | (None, Err(error)) => Err(error.not_applied()),
            (Some(Ok(_)), Err(error)) => Err(error),
            (Some(result), Ok(())) => result,
            (None, Ok(())) => Err(StoreError::Bug("the operation was not run".to_owned())),
        };
        let has_committed = self.left_out.has_committed();
        let _ = self.caller.send(match result {
            Err(error) if has_committed => Err(error.maybe_applied()),
            result => result,
        });
    }
}

/// The maximum time for which a dropped [`Writer`] waits until its thread has closed the file. A device that hangs must not keep
/// a broker from stopping.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends operations to the writer thread. When it is dropped, the thread answers all operations, closes the file and ends.
pub(super) struct Writer {
    /// `None` only while it is dropped.
    operations: Option<mpsc::Sender<Box<dyn WriteOperation>>>,
    /// Disconnected when the thread has closed the file.
    closed: Mutex<mpsc::Receiver<()>>,
    withdrawals: Withdrawals,
}

impl Drop for Writer {
    /// Waits until the thread has closed the file. Another program that opens the file afterwards is alone with it.
    fn drop(&mut self) {
        self.operations = None;
        let _ = self.closed.get_mut().recv_timeout(CLOSE_TIMEOUT);
    }
}

impl Writer {
    /// Starts the writer thread.
    pub(super) fn spawn(context: WriteContext) -> Result<Self, StoreError> {
        let (operations, arrived) = mpsc::channel();
        let (open, closed) = mpsc::channel();
        let started = Flusher::spawn(context.log().clone()).and_then(|flusher| {
            thread::Builder::new()
                .name("sqlite-writer".to_owned())
                .spawn(move || {
                    run_groups(&context, flusher, &arrived);
                    drop(context);
                    drop(open);
                })
        });
        started.map_err(|error| {
            StoreError::unavailable(format!("the writer's threads cannot be started: {error}"))
        })?;
        Ok(Self {
            operations: Some(operations),
            closed: closed.into(),
            withdrawals: Withdrawals::default(),
        })
    }

    /// Fails the operations that have not begun. They never begin.
    pub(super) fn withdraw_waiting(&self) {
        self.withdrawals.withdraw_waiting();
    }

    /// Runs an operation and returns its result after the commit. The operation runs to its end even if the caller
    /// drops the future.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        operation: impl Fn(&WriteContext) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let operation = move |context: &WriteContext, _: &LeftOut| operation(context);
        self.run_without(LeftOut::none(), operation).await
    }

    /// Runs an operation that can leave out rows.
    pub(super) async fn run_without<T: Send + 'static>(
        &self,
        left_out: LeftOut,
        operation: impl Fn(&WriteContext, &LeftOut) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        const ENDED: &str = "the writer thread has ended";

        let (caller, result) = oneshot::channel();
        let beginning = Beginning::default();
        let pending = PendingWrite {
            operation,
            left_out,
            beginning: beginning.clone(),
            result: None,
            caller,
        };
        let not_begun = || StoreError::not_begun(OutageCause::Other, ENDED);
        let withdrawn = self.withdrawals.next(&beginning);
        let operations = self.operations.as_ref().ok_or_else(not_begun)?;
        operations
            .send(Box::new(pending))
            .map_err(|_| not_begun())?;
        tokio::select! {
            biased;
            result = result => result.map_err(|_| StoreError::unavailable(ENDED))?,
            withdrawn = withdrawn => Err(withdrawn),
        }
    }
}

type Group = Vec<Box<dyn WriteOperation>>;

/// Operations of a transaction that has ended.
struct EndedGroup {
    operations: Group,
    committed: Result<(), StoreError>,
}

impl EndedGroup {
    fn new(operations: Group, committed: Result<bool, StoreError>) -> Self {
        Self {
            operations,
            committed: committed.map(|_| ()),
        }
    }
}

impl Unanswered for EndedGroup {
    fn answer(self, flushed: Result<(), StoreError>) {
        let committed = self.committed.and(flushed);
        for operation in self.operations {
            operation.answer(committed.clone());
        }
    }
}

/// Runs operations until no more can arrive, and answers all of them.
fn run_groups(
    context: &WriteContext,
    mut flusher: Flusher<EndedGroup>,
    arrived: &mpsc::Receiver<Box<dyn WriteOperation>>,
) {
    let mut next = arrived.recv().ok();
    while let Some(first) = next {
        let ended = commit_group(context, first, arrived);
        let change = context.seen.count(&context.connection);
        next = arrived.try_recv().ok();
        for group in ended {
            flusher.answer(group, change, next.is_some());
        }
        next = next.or_else(|| arrived.recv().ok());
    }
}

/// Runs `first` and the operations that arrive meanwhile.
fn commit_group(
    context: &WriteContext,
    first: Box<dyn WriteOperation>,
    arrived: &mpsc::Receiver<Box<dyn WriteOperation>>,
) -> Vec<EndedGroup> {
    let mut group = vec![first];
    let mut committed = transaction(context, || run_arrived(context, &mut group, arrived));
    // An operation failed, and the transaction was rolled back. The group runs again with a savepoint for each
    // operation, so that only the failed one is undone. Failures are rare, and the first try saves the cost of the
    // savepoints. A single operation runs again only if it has asked for it.
    if matches!(committed, Ok(false)) && (context.take_run_again() || group.len() > 1) {
        committed = transaction(context, || run_in_savepoints(context, &mut group));
    }
    // The operations that wait behind this group would fail in the same way, each after the same wait for the lock or
    // the device. They get the error immediately.
    if matches!(committed, Err(StoreError::Unavailable(_))) {
        group.extend(arrived.try_iter());
    }
    if !matches!(committed, Err(StoreError::Rejected(_))) {
        return vec![EndedGroup::new(group, committed)];
    }
    // A constraint can be checked as late as at the commit. Then the failed operation is not known. A trigger can roll the
    // transaction back. In both cases each operation runs in its own transaction. A single one has, and runs again if it has asked for it.
    let known = (!context.take_run_again() && group.len() == 1).then_some(committed);
    let alone = group.into_iter();
    let run = |operation| run_alone(context, operation, known.clone());
    alone.map(run).collect()
}

/// Runs an operation in its own transaction, unless the result of this is known. Runs it again if it asks for it, and row by row if the
/// commit finds a broken foreign key.
fn run_alone(
    context: &WriteContext,
    mut operation: Box<dyn WriteOperation>,
    known: Option<Result<bool, StoreError>>,
) -> EndedGroup {
    let run = |operation: &mut Box<dyn WriteOperation>| {
        transaction(context, || Ok(operation.run(context)))
    };
    let mut committed = known.unwrap_or_else(|| run(&mut operation));
    while context.take_run_again() || breaks_foreign_key(&committed) && operation.commit_rows() {
        committed = run(&mut operation);
    }
    EndedGroup::new(vec![operation], committed)
}

/// Returns whether the commit has found a broken foreign key.
fn breaks_foreign_key(committed: &Result<bool, StoreError>) -> bool {
    matches!(committed, Err(StoreError::Rejected(rejection))
        if rejection.problem.kind == ProblemKind::ForeignKey)
}

/// Runs `work` in a transaction. Commits if it returns true; otherwise, or if it fails, rolls back.
fn transaction(
    context: &WriteContext,
    work: impl FnOnce() -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    context.log().check()?;
    context.files.check(&context.connection)?;
    let begun = context.execute("BEGIN IMMEDIATE");
    begun.map_err(|error| context.files.write_lock.name_holder(error).not_applied())?;
    // Until the commit, every error rolls the transaction back. An error of the commit itself can leave it in the log.
    let seen = context.seen.look(&context.connection);
    let result = seen.map_err(StoreError::from).and_then(|_| work());
    let result = result.map_err(StoreError::not_applied);
    let result = result.and_then(|may_commit| {
        if may_commit {
            let mut commit = context.connection.prepare_cached("COMMIT")?;
            commit.execute([]).map_err(|error| refused_change(&error))?;
        }
        Ok(may_commit)
    });
    if !context.connection.is_autocommit() {
        let _ = context.execute("ROLLBACK");
    }
    result
}

/// Runs the first operation of the group, then takes operations that have arrived into the group and runs them. Returns
/// false at the first that fails.
fn run_arrived(
    context: &WriteContext,
    group: &mut Group,
    arrived: &mpsc::Receiver<Box<dyn WriteOperation>>,
) -> Result<bool, StoreError> {
    let mut index = 0;
    loop {
        if !group[index].begin() {
            group.swap_remove(index);
        } else if run_one(context, &mut group[index])? {
            index += 1;
        } else {
            return Ok(false);
        }
        match (group.len() < MAX_GROUP_WRITES).then(|| arrived.try_recv()) {
            Some(Ok(next)) => group.push(next),
            _ => return Ok(true),
        }
    }
}

/// Runs each operation of the group in a savepoint and undoes those that fail. An operation that asks for it runs once more.
fn run_in_savepoints(context: &WriteContext, group: &mut Group) -> Result<bool, StoreError> {
    for operation in group {
        context.execute("SAVEPOINT operation")?;
        let mut may_commit = run_one(context, operation)?;
        if context.take_run_again() {
            context.execute("ROLLBACK TO operation")?;
            may_commit = run_one(context, operation)?;
        }
        if !may_commit {
            context.execute("ROLLBACK TO operation")?;
        }
        context.execute("RELEASE operation")?;
    }
    Ok(true)
}

/// Runs one operation. Returns true if its changes may be committed.
///
/// # Errors
/// [`StoreError::Rejected`] if a trigger, a constraint or a used-up key has rolled back the whole transaction.
/// [`StoreError::Unavailable`] if SQLite has, as it does on a full disk or an I/O error.
fn run_one(
    context: &WriteContext,
    operation: &mut Box<dyn WriteOperation>,
) -> Result<bool, StoreError> {
    let may_commit = operation.run(context);
    if context.connection.is_autocommit() {
        if operation.was_rejected() {
            let text = "a trigger, a constraint or a used-up key rolled the transaction back";
            return Err(rejected(Problem::new(ProblemKind::Other, text)));
        }
        let reason = "an error of the device ended the transaction; no change was committed";
        return Err(StoreError::outage(OutageCause::File, reason));
    }
    Ok(may_commit)
}

/// Returns the error of a failed commit. The request whose change a constraint refused is not known.
fn refused_change(error: &rusqlite::Error) -> StoreError {
    match broken_constraint(error) {
        Some(problem) => rejected(problem),
        None => match classify(error) {
            // The log has no room for the last page of the transaction, and without it the transaction does not count.
            full @ StoreError::Unavailable(Outage {
                cause: OutageCause::NoSpace,
                ..
            }) => full.not_applied(),
            other => other,
        },
    }
}

fn rejected(problem: Problem) -> StoreError {
    StoreError::Rejected(Rejection::of_list(None, problem))
}
