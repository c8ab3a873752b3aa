//! The store on an embedded SQLite file. Any number of broker processes on the host of the file can share it.
//!
//! One thread (`writer.rs`) runs all operations that change the file, and another (`flusher.rs`) waits for the device. Reads for
//! operators use a second connection, which does not wait for the writer. `SqliteReader` has only these reads. Each operation is in
//! the file that is named after it, as its SQL is in `sql/sqlite`.

mod added_parts;
mod adopt;
mod adopt_sql;
mod backfill;
mod backup;
mod cancel;
mod catalogue;
mod claim;
mod clock;
mod column_value;
mod companion;
mod connection;
mod enqueue;
mod enqueue_once;
mod epoch;
mod error;
mod example_item;
mod flusher;
mod foreign_keys;
pub(super) mod fuzzing;
mod generation;
mod group_list;
mod group_pause;
mod group_rates;
mod heartbeat;
mod held_expiry;
mod held_file;
mod held_lease;
mod ignored_change;
mod index;
mod inspect;
mod instance;
mod lease_effects;
mod left_out;
mod lock_holder;
mod log_flush;
mod migrations;
mod mirror;
mod moments;
mod new_file;
mod new_item;
mod numbers;
mod open_files;
mod operations;
mod pause;
mod placeholders;
mod purge;
mod purge_statements;
mod queue_statements;
mod quote;
mod read_connection;
mod reader;
mod ready_item;
mod reap;
mod release_claims;
mod remove;
mod row_error;
mod run_statements;
mod runs;
mod search;
mod secrets;
mod settle;
mod soft_lock_types;
mod soft_lock_value;
mod state_counts;
mod state_index;
mod statement;
mod suspect_statements;
mod suspects;
#[cfg(test)]
mod tests;
mod turn;
mod turn_statements;
mod types;
mod undone_by;
mod walk;
mod warnings;
mod why;
mod why_statements;
mod write_context;
mod writer;
mod written_columns;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{Secret, SigningSecrets};
use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::LeaseSql;
use lease_broker_sql::sqlite::LEASE_SQL;
use rusqlite::Connection;
use uuid::Uuid;

pub use self::adopt::SqliteSchema;
pub use self::backup::{Restored, back_up, refuse_open_file, restore};
pub use self::clock::{Clock, system_clock};
use self::left_out::LeftOut;
pub use self::lock_holder::{LockHolder, WriteLock};
pub use self::new_file::refuse_missing_file;
use self::purge::Cutoffs;
use self::queue_statements::QueueStatements;
use self::read_connection::ReadConnection;
pub use self::reader::SqliteReader;
use self::settle::UndoScope;
use self::write_context::WriteContext;
use self::writer::Writer;
use super::adoption::Unfit;
use super::contract::due_after;
use super::schema::Schema as _;
use super::secrets::{first_secret, replace as replace_secrets};
use super::{
    AppliedBatch, ArchiveCutoff, BrokerOrders, Browse, CancelResults, Cancellation, CancelledLease,
    ClaimCall, Claimed, Concurrency, Database, EnqueueOnce, EnqueuedOnce, Facts, GroupPause,
    Instance, LatestTime, Leases, LimitChange, NewGroupPause, NewItem, NewOperation, NewPause,
    Operate, Operation, OperationBatch, PoolStatus, PurgeStep, Purged, QueueIndex,
    QueueLimitValues, QueuePause, Reaped, Refusal, ReleasedClaims, Renewal, Renewed, RetentionTurn,
    SettleResults, Settled, Settlement, StartedOperation, Store, StoreError, Upkeep,
};

/// A [`Store`] on an SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    secret: Secret,
    signing_secrets: Arc<SigningSecrets>,
    queues: Arc<[QueueStatements]>,
    writer: Writer,
    reader: SqliteReader,
    /// The same reads.
    reads: Arc<dyn Browse>,
    /// The highest generation of the file that this process has committed.
    generation: Arc<AtomicU64>,
    write_lock: WriteLock,
}

impl SqliteStore {
    /// Opens the file, and creates it if it does not exist. Creates the broker's tables and the tables of managed
    /// queues, and checks the table of every queue.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if a queue's table does not fit the queue. The text lists everything that is
    /// missing. [`StoreError::Io`] if the file is damaged, or cannot be opened or written.
    pub fn open(path: &Path, queues: &[QueueSpec], clock: Clock) -> Result<Self, StoreError> {
        let opened = Self::open_with_sql(path, queues, clock, &LEASE_SQL);
        opened.map_err(|error| WriteLock::of(path).name_holder(error))
    }

    /// Does the same as [`Self::open`], with these statements. A test gives other ones than the broker's.
    ///
    /// # Errors
    /// The same as [`Self::open`].
    ///
    /// # Panics
    /// If a section or a placeholder of a statement is missing.
    pub fn open_with_sql(
        path: &Path,
        queues: &[QueueSpec],
        clock: Clock,
        sql: &LeaseSql,
    ) -> Result<Self, StoreError> {
        refuse_missing_file(path, queues)?;
        let connection = connection::open(path)?;
        migrations::migrate(&connection)?;
        epoch::refuse_backup(&connection)?;
        let secrets = secrets::read(&connection, clock())?;
        let secret = first_secret(&secrets)?;
        let mut schema = SqliteSchema::over(connection);
        let mut unfit = Unfit::default();
        for queue in queues {
            if queue.managed_columns.is_some() {
                apply_in_one_transaction(&mut schema, queue, clock())?;
            }
            unfit.add(schema.unfit(queue)?);
        }
        unfit.into_result()?;
        let connection = schema.into_connection();
        let queues: Arc<[QueueStatements]> = queues
            .iter()
            .map(|queue| QueueStatements::new(&connection, queue, sql))
            .collect::<Result<_, _>>()?;
        for queue in &*queues {
            turn::fill_row(&connection, queue)?;
        }
        let context = WriteContext::new(connection, queues.clone(), clock.clone())?;
        let reader = ReadConnection::over(connection::open(path)?, path);
        let reader =
            SqliteReader::new(reader, queues.clone(), clock).flushing(context.log().clone());
        Ok(Self {
            path: path.to_owned(),
            secret,
            signing_secrets: Arc::new(SigningSecrets::new(&secrets)),
            queues,
            writer: Writer::spawn(context)?,
            reads: Arc::new(reader.clone()),
            reader,
            generation: Arc::default(),
            write_lock: WriteLock::of(path),
        })
    }
}

/// Creates or changes the table of a managed queue, in one transaction.
///
/// If two brokers start at the same time, the second waits for the lock of the first. So the plan is made again inside
/// the transaction, and the second broker finds no steps left.
fn apply_in_one_transaction(
    schema: &mut SqliteSchema,
    queue: &QueueSpec,
    now: i64,
) -> Result<(), StoreError> {
    if schema.plan(queue)?.is_empty() {
        return Ok(());
    }
    schema.transaction(|schema| {
        let steps = schema.plan(queue)?;
        if !steps.is_empty() {
            schema.refuse_other_rule(queue, now)?;
        }
        for step in steps {
            schema.apply(&step, &mut |_| ())?;
        }
        Ok(())
    })
}

impl Store for SqliteStore {
    fn reads(&self) -> &Arc<dyn Browse> {
        &self.reads
    }
}

#[async_trait]
impl Facts for SqliteStore {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn signing_secrets(&self) -> &Arc<SigningSecrets> {
        &self.signing_secrets
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn database(&self) -> Database {
        let file = self.path.file_name();
        Database {
            namespace: file.map(|name| name.to_string_lossy().into_owned()),
            ..Database::default()
        }
    }

    fn pool_status(&self) -> PoolStatus {
        PoolStatus::default()
    }

    fn columns(&self, queue: QueueIndex) -> Arc<[String]> {
        self.queues[queue.0].columns.clone()
    }

    async fn example_item(
        &self,
        queue: QueueIndex,
    ) -> Result<Option<Vec<(String, String)>>, StoreError> {
        let find = |connection: &Connection, queue: &QueueStatements, _| {
            example_item::find(connection, queue)
        };
        self.reader.read(queue, find).await
    }
}

/// Implements a trait of the contract. Behind the methods that are written out come lists of those that the writer thread runs by a
/// function. `(&)` marks an argument that the function takes by reference. The functions behind `run_without` can leave out rows.
macro_rules! implement {
    ($contract:ident { $($written:tt)* }
    run { $($name:ident($($(($by:tt))? $argument:ident: $type:ty),*) -> $result:ty = $function:path;)* }
    run_without { $($without:ident($($(($by_2:tt))? $argument_2:ident: $type_2:ty),*) -> $result_2:ty = $function_2:path;)* }) => {
        #[async_trait]
        impl $contract for SqliteStore {
            $($written)*

            $(async fn $name(&self, $($argument: $type),*) -> Result<$result, StoreError> {
                self.writer.run(move |context| $function(context, $($($by)? $argument),*)).await
            })*

            $(async fn $without(&self, $($argument_2: $type_2),*) -> Result<$result_2, StoreError> {
                self.writer
                    .run_without(LeftOut::default(), move |context, left_out| {
                        $function_2(context, $($($by_2)? $argument_2,)* left_out)
                    })
                    .await
            })*
        }
    };
}

implement! {
    Leases {
        fn concurrency(&self) -> Concurrency {
            // Only the writer thread writes. It commits operations in groups, and flushes the log behind them.
            Concurrency::Pipelined
        }

        fn withdraw_waiting(&self) {
            self.writer.withdraw_waiting();
        }

        async fn settle(
            &self,
            queue: QueueIndex,
            settlements: Arc<[Settlement]>,
        ) -> Result<SettleResults, StoreError> {
            for undo_scope in [UndoScope::List, UndoScope::Settlement] {
                let settlements = settlements.clone();
                let settle = move |context: &WriteContext| {
                    settle::settle(context, queue, &settlements, undo_scope)
                };
                match self.writer.run(settle).await {
                    Err(StoreError::Rejected(_)) => {}
                    outcome => return outcome,
                }
            }
            // A savepoint did not help: a constraint refused a change at the commit, or a trigger rolled the transaction back.
            // So each settlement runs as one operation.
            let alone = (0..settlements.len()).map(|index| {
                let settlements = settlements.clone();
                self.writer.run(move |context: &WriteContext| {
                    let settlement = std::slice::from_ref(&settlements[index]);
                    settle::settle(context, queue, settlement, UndoScope::List)
                })
            });
            let mut settled = SettleResults {
                time: None,
                results: Vec::with_capacity(settlements.len()),
                owners: Vec::with_capacity(settlements.len()),
                released: Vec::new(),
            };
            for outcome in join_all(alone).await {
                // Others of the list may have been applied.
                match outcome.map_err(StoreError::maybe_applied) {
                    Err(StoreError::Rejected(rejection)) => {
                        settled.owners.push(None);
                        settled
                            .results
                            .push(Settled::Refused(Refusal::of_row(rejection.problem)));
                    }
                    outcome => {
                        let outcome = outcome?;
                        settled.time = outcome.time.or(settled.time);
                        settled.results.extend(outcome.results);
                        settled.owners.extend(outcome.owners);
                        settled.released.extend(outcome.released);
                    }
                }
            }
            Ok(settled)
        }

        async fn cancel(
            &self,
            queue: QueueIndex,
            leases: Arc<[CancelledLease]>,
            cancellation: Cancellation,
        ) -> Result<CancelResults, StoreError> {
            let left_out = LeftOut::default();
            let cancel = move |context: &WriteContext, left_out: &LeftOut| {
                cancel::cancel(context, queue, &leases, &cancellation, None, left_out)
            };
            self.writer.run_without(left_out, cancel).await
        }

        async fn reap(
            &self,
            queue: QueueIndex,
            limit: usize,
            latest: Option<LatestTime>,
        ) -> Result<Reaped, StoreError> {
            let left_out = LeftOut::of_at_most(reap::MAX_REFUSED);
            let reap = move |context: &WriteContext, left_out: &LeftOut| {
                reap::reap(context, queue, limit, latest, left_out)
            };
            self.writer.run_without(left_out, reap).await
        }
    }
    run {
        enqueue(queue: QueueIndex, (&)items: Arc<[NewItem]>) -> Vec<Key> = enqueue::enqueue;
        enqueue_once(queue: QueueIndex, (&)request: Arc<EnqueueOnce>) -> EnqueuedOnce = enqueue_once::enqueue_once;
    }
    run_without {
        claim(queue: QueueIndex, (&)calls: Arc<[ClaimCall]>, max_bytes: usize) -> Vec<Claimed> = claim::claim;
        heartbeat(queue: QueueIndex, (&)renewals: Arc<[Renewal]>) -> Vec<Renewed> = heartbeat::heartbeat;
        release_claims(queue: QueueIndex, (&)tokens: Arc<[Uuid]>) -> ReleasedClaims = release_claims::release_claims;
    }
}

implement! {
    Operate {
        async fn cancel_operation(
            &self,
            id: Uuid,
            actor: &str,
        ) -> Result<Option<Operation>, StoreError> {
            let actor = actor.to_owned();
            let cancel = move |context: &WriteContext| operations::cancel(context, id, &actor);
            self.writer.run(cancel).await
        }

        async fn take_operation(
            &self,
            id: Uuid,
            broker: Uuid,
            duration: Duration,
        ) -> Result<Option<Operation>, StoreError> {
            let take = move |context: &WriteContext| {
                let until = due_after(context.now(), duration);
                operations::take(context, id, broker, until)
            };
            self.writer.run(take).await
        }

        async fn read_orders(
            &self,
            broker: Uuid,
            queues: &[String],
        ) -> Result<BrokerOrders, StoreError> {
            let queues = queues.to_vec();
            let read = move |connection: &Connection, now| {
                operations::read_orders(connection, broker, &queues, now)
            };
            self.reader.read_file(read).await
        }
    }
    run {
        pause(queue: QueueIndex, (&)pause: NewPause) -> QueuePause = pause::pause;
        resume(queue: QueueIndex) -> Option<QueuePause> = pause::resume;
        set_limits(queue: QueueIndex, (&)change: LimitChange) -> QueueLimitValues = turn::set_limits;
        pause_group(queue: QueueIndex, (&)group: Key, (&)pause: NewGroupPause) -> Option<GroupPause> = group_pause::pause_group;
        resume_group(queue: QueueIndex, (&)group: Key) -> Option<GroupPause> = group_pause::resume_group;
        start_operation(queue: QueueIndex, (&)operation: NewOperation) -> StartedOperation = operations::start;
        apply_batch(queue: QueueIndex, (&)batch: OperationBatch) -> AppliedBatch = operations::apply;
        request_drain((&)broker: Uuid) -> bool = instance::request_drain;
    }
    run_without {}
}

implement! {
    Upkeep {
        async fn read_secrets(&self) -> Result<(), StoreError> {
            let read = |connection: &Connection, now| secrets::read(connection, now);
            let stored = self.reader.read_file(read).await?;
            replace_secrets(&self.signing_secrets, &stored)
        }

        async fn purge(&self, queue: QueueIndex, step: PurgeStep) -> Result<Purged, StoreError> {
            let visited = step.clone();
            let visit = move |connection: &Connection, queue: &QueueStatements, now| {
                let cutoffs = Cutoffs::new(&visited, now);
                let (old, last) = purge::visit(connection, queue, &visited, cutoffs)?;
                Ok((old, last, cutoffs))
            };
            let (old, last, cutoffs) = self.reader.read(queue, visit).await?;
            let mut count = old.len();
            if step.delete && count > 0 {
                let delete = move |context: &WriteContext| purge::delete(context, queue, &old, cutoffs);
                count = self.writer.run(delete).await?;
            }
            Ok(Purged { old: count, last })
        }

        async fn count_archived(&self, queue: QueueIndex, before: i64) -> Result<u64, StoreError> {
            let count = move |connection: &Connection, queue: &QueueStatements, _| {
                purge::count_archived(connection, queue, before)
            };
            self.reader.read(queue, count).await
        }

        async fn announce(&self, instance: Arc<Instance>) -> Result<Vec<Instance>, StoreError> {
            let known = self.generation.clone();
            let announce = move |context: &WriteContext| {
                let generation = context.raise_generation(&known)?;
                Ok((generation, instance::announce(context, &instance)?))
            };
            let (generation, others) = self.writer.run(announce).await?;
            self.generation.fetch_max(generation, Ordering::Relaxed);
            Ok(others)
        }

        fn obstacle(&self) -> Option<String> {
            let holder = self.write_lock.holder()?;
            Some(format!("the write lock of the file is held by {holder}"))
        }

        async fn probe(&self) -> Result<(), StoreError> {
            let write = "UPDATE lease_broker_probe SET writes = writes + 1 WHERE id = 0";
            self.writer
                .run(move |context| {
                    context.connection.prepare_cached(write)?.execute([])?;
                    Ok(())
                })
                .await
        }
    }
    run {
        rotate_secrets(accept_old_for: Duration) -> u8 = secrets::rotate;
        forget_requests(limit: usize) -> usize = enqueue_once::forget_requests;
        take_retention_turn(queue: QueueIndex, broker: Uuid, duration: Duration) -> RetentionTurn = purge::take_turn;
    }
    run_without {
        purge_archive(queue: QueueIndex, cutoff: ArchiveCutoff, limit: usize) -> usize = purge::delete_archived;
    }
}
