//! The context of a write operation: the connection of the writer thread, and all else that an operation needs of it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rusqlite::Connection;

use super::clock::Clock;
use super::generation;
use super::lease_effects::LeaseEffects;
use super::log_flush::{LogFlush, SeenChanges};
use super::new_item::InsertStatements;
use super::open_files::OpenFiles;
use super::queue_statements::QueueStatements;
use crate::{QueueIndex, StoreError};

/// The connection and the statements with which a write operation runs.
pub(super) struct WriteContext {
    pub(super) connection: Connection,
    pub(super) queues: Arc<[QueueStatements]>,
    pub(super) inserts: InsertStatements,
    pub(super) lease_effects: LeaseEffects,
    pub(super) files: OpenFiles,
    pub(super) seen: SeenChanges,
    clock: Clock,
    log: Arc<LogFlush>,
    /// Set by an operation that has failed and succeeds if it runs again.
    runs_again: Cell<bool>,
}

impl WriteContext {
    /// Takes over a connection. Its commits return before the device has them.
    pub(super) fn new(
        connection: Connection,
        queues: Arc<[QueueStatements]>,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        connection.pragma_update(None, "synchronous", "normal")?;
        Ok(Self {
            files: OpenFiles::new(&connection),
            log: Arc::new(LogFlush::open(&connection)?),
            seen: SeenChanges::default(),
            connection,
            queues,
            inserts: InsertStatements::default(),
            lease_effects: LeaseEffects::default(),
            clock,
            runs_again: Cell::new(false),
        })
    }

    /// The log of the file, for reads that tell programs what the file has.
    pub(super) const fn log(&self) -> &Arc<LogFlush> {
        &self.log
    }

    /// Runs a statement without parameters.
    pub(super) fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Asks for another run of the present operation, whose changes are undone because it fails.
    pub(super) fn run_again(&self) {
        self.runs_again.set(true);
    }

    /// Returns whether another run was asked for since the last call.
    pub(super) fn take_run_again(&self) -> bool {
        self.runs_again.take()
    }

    /// Raises the generation of the file, and returns it. `known`: the highest that was committed. If the file went back in time, no
    /// later operation begins.
    pub(super) fn raise_generation(&self, known: &AtomicU64) -> Result<u64, StoreError> {
        let raised = generation::raise(&self.connection, known);
        raised.inspect_err(|error| self.files.refuse(error))
    }

    /// Returns the present time in milliseconds since 1970-01-01T00:00:00Z. It decides if a lease has expired.
    pub(super) fn now(&self) -> i64 {
        (self.clock)()
    }

    pub(super) fn queue(&self, queue: QueueIndex) -> Result<&QueueStatements, StoreError> {
        self.queues
            .get(queue.0)
            .ok_or_else(|| StoreError::Bug(format!("no queue with index {}", queue.0)))
    }
}
