//! The one thread that writes: it takes whatever operations have come in, runs them in one transaction, and answers them
//! when that transaction is on the device. So many operations share one flush.

use std::sync::{Arc, mpsc};
use std::thread;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::Clock;
use super::table::{Inserts, QueueTable};
use crate::store::{QueueIndex, StoreError};

/// The most operations in one transaction: bounds how long the first of them waits for the last.
const GROUP: usize = 64;

/// What an operation works with.
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) queues: Arc<[QueueTable]>,
    pub(super) inserts: Inserts,
    clock: Clock,
}

impl Session {
    pub(super) fn new(connection: Connection, queues: Arc<[QueueTable]>, clock: Clock) -> Self {
        Self {
            connection,
            queues,
            inserts: Inserts::default(),
            clock,
        }
    }

    /// Returns the time that decides, in milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        (self.clock)()
    }

    pub(super) fn queue(&self, queue: QueueIndex) -> Result<&QueueTable, StoreError> {
        self.queues
            .get(queue.0)
            .ok_or_else(|| StoreError::Bug(format!("no queue number {}", queue.0)))
    }
}

/// Something for the writer to do and to answer.
trait Operation: Send {
    /// Runs it, again where an earlier transaction came to nothing, and returns whether what it did may stay.
    fn run(&mut self, session: &Session) -> bool;
    /// Answers its caller, now that it is known whether the transaction is on the device.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// An operation with its outcome, as soon as there is one.
struct Task<T, F> {
    work: F,
    outcome: Option<Result<T, StoreError>>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Operation for Task<T, F>
where
    T: Send,
    F: Fn(&Session) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, session: &Session) -> bool {
        let outcome = (self.work)(session);
        let keep = outcome.is_ok();
        self.outcome = Some(outcome);
        keep
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        // An operation's own error says more than that of the transaction that it broke.
        let result = match (self.outcome, committed) {
            (Some(Err(error)), _) | (_, Err(error)) => Err(error),
            (Some(outcome), Ok(())) => outcome,
            (None, Ok(())) => Err(StoreError::Bug("the operation was not run".to_owned())),
        };
        let _ = self.caller.send(result);
    }
}

/// Hands operations to the writer thread, which ends when the last handle is dropped and its work is done.
#[derive(Clone)]
pub(super) struct Writer {
    operations: mpsc::Sender<Box<dyn Operation>>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn spawn(session: Session) -> Result<Self, StoreError> {
        let (operations, inbox) = mpsc::channel();
        thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || {
                while let Ok(first) = inbox.recv() {
                    run_group(&session, first, &inbox);
                }
            })
            .map_err(|error| {
                StoreError::unavailable(format!("no thread for the writer: {error}"))
            })?;
        Ok(Self { operations })
    }

    /// Runs an operation to its end, whether or not the returned future is waited for, and answers when what it did is
    /// on the device.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        operation: impl Fn(&Session) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (caller, answer) = oneshot::channel();
        let operation = Task {
            work: operation,
            outcome: None,
            caller,
        };
        let gone = || StoreError::unavailable("the writer thread has ended".to_owned());
        self.operations
            .send(Box::new(operation))
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

type Group = Vec<Box<dyn Operation>>;

/// Runs an operation, and those that come in meanwhile, and answers them.
fn run_group(
    session: &Session,
    first: Box<dyn Operation>,
    inbox: &mpsc::Receiver<Box<dyn Operation>>,
) {
    let mut group = vec![first];
    let mut committed = transaction(session, || run_all(session, &mut group, inbox));
    // An operation's error must undo what it did and nothing else. That is rare, and what a savepoint costs is not
    // spent on every operation: the group runs again, each in one.
    if matches!(committed, Ok(false)) && group.len() > 1 {
        committed = transaction(session, || run_each(session, &mut group));
    }
    // Those behind would wait for the lock, or fail on the device, just as long again.
    if matches!(committed, Err(StoreError::Unavailable(_))) {
        group.extend(inbox.try_iter());
    }
    // A constraint that is checked at the end of the transaction: each operation answers for itself.
    if matches!(committed, Err(StoreError::Misconfigured(_))) && group.len() > 1 {
        for mut operation in group {
            let committed = transaction(session, || Ok(operation.run(session)));
            operation.answer(committed.map(|_| ()));
        }
    } else {
        for operation in group {
            operation.answer(committed.clone().map(|_| ()));
        }
    }
}

/// Commits what `run` does, if it says so; rolls it back if not, or if it fails.
fn transaction(
    session: &Session,
    run: impl FnOnce() -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    execute(session, "BEGIN IMMEDIATE")?;
    let outcome = run().and_then(|keep| {
        if keep {
            execute(session, "COMMIT")?;
        }
        Ok(keep)
    });
    if !session.connection.is_autocommit() {
        let _ = execute(session, "ROLLBACK");
    }
    outcome
}

/// Runs the group's first operation and those that have come in meanwhile; returns false at the first that fails.
fn run_all(
    session: &Session,
    group: &mut Group,
    inbox: &mpsc::Receiver<Box<dyn Operation>>,
) -> Result<bool, StoreError> {
    let mut at = 0;
    loop {
        if !run_one(session, &mut group[at])? {
            return Ok(false);
        }
        at += 1;
        match (group.len() < GROUP).then(|| inbox.try_recv()) {
            Some(Ok(next)) => group.push(next),
            _ => return Ok(true),
        }
    }
}

/// Runs each operation of the group in a savepoint.
fn run_each(session: &Session, group: &mut Group) -> Result<bool, StoreError> {
    for operation in group {
        execute(session, "SAVEPOINT operation")?;
        if !run_one(session, operation)? {
            execute(session, "ROLLBACK TO operation")?;
        }
        execute(session, "RELEASE operation")?;
    }
    Ok(true)
}

/// Runs one operation and returns whether what it did may stay.
fn run_one(session: &Session, operation: &mut Box<dyn Operation>) -> Result<bool, StoreError> {
    let keep = operation.run(session);
    if session.connection.is_autocommit() {
        // A full disk or a failing device ends the whole transaction at once.
        let ended = "an error of the device ended the transaction; nothing of it was applied";
        return Err(StoreError::unavailable(ended.to_owned()));
    }
    Ok(keep)
}

fn execute(session: &Session, sql: &str) -> Result<(), StoreError> {
    session.connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
