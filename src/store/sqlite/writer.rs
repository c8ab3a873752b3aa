//! The one thread that writes: it takes whatever operations have come in, runs each in a savepoint of one transaction,
//! and answers them when that transaction is on the device. So many operations share one flush.

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
                StoreError::Unavailable(format!("no thread for the writer: {error}"))
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
        let gone = || StoreError::Unavailable("the writer thread has ended".to_owned());
        self.operations
            .send(Box::new(operation))
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn run_group(
    session: &Session,
    first: Box<dyn Operation>,
    inbox: &mpsc::Receiver<Box<dyn Operation>>,
) {
    let mut group = vec![first];
    let committed = transaction(session, &mut group, Some(inbox));
    if group.len() == 1 || !matches!(committed, Err(StoreError::Misconfigured(_))) {
        for operation in group {
            operation.answer(committed.clone());
        }
        return;
    }
    // A constraint that is checked at the end of the transaction: each operation answers for itself.
    for operation in group {
        let mut alone = vec![operation];
        let committed = transaction(session, &mut alone, None);
        for operation in alone {
            operation.answer(committed.clone());
        }
    }
}

/// Runs the operations, and those that come in meanwhile, in one transaction.
fn transaction(
    session: &Session,
    group: &mut Vec<Box<dyn Operation>>,
    inbox: Option<&mpsc::Receiver<Box<dyn Operation>>>,
) -> Result<(), StoreError> {
    execute(session, "BEGIN IMMEDIATE")?;
    let committed = run_operations(session, group, inbox).and_then(|()| execute(session, "COMMIT"));
    if !session.connection.is_autocommit() {
        let _ = execute(session, "ROLLBACK");
    }
    committed
}

/// Runs the group's first operation, and those that have come in meanwhile, each in a savepoint: an operation's error
/// undoes what it did and nothing else.
fn run_operations(
    session: &Session,
    group: &mut Vec<Box<dyn Operation>>,
    inbox: Option<&mpsc::Receiver<Box<dyn Operation>>>,
) -> Result<(), StoreError> {
    let mut at = 0;
    loop {
        execute(session, "SAVEPOINT operation")?;
        let keep = group[at].run(session);
        if session.connection.is_autocommit() {
            // A full disk or a failing device ends the whole transaction at once.
            let ended = "an error of the device ended the transaction; nothing of it was applied";
            return Err(StoreError::Unavailable(ended.to_owned()));
        }
        if !keep {
            execute(session, "ROLLBACK TO operation")?;
        }
        execute(session, "RELEASE operation")?;
        at += 1;
        let inbox = inbox.filter(|_| group.len() < GROUP);
        match inbox.map(mpsc::Receiver::try_recv) {
            Some(Ok(next)) => group.push(next),
            _ => return Ok(()),
        }
    }
}

fn execute(session: &Session, sql: &str) -> Result<(), StoreError> {
    session.connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
