//! The SQL Server store: implements [`Store`] on tables of a SQL Server or Babelfish database. An operation sends all its
//! requests as one batch, in one round trip. A batch that changes rows is one transaction.

mod added_parts;
mod adopt;
mod adopt_sql;
mod authority_file;
mod backfill;
mod batch_reply;
mod cancel;
mod cascades;
mod catalogue;
mod claim;
mod connect;
mod connection;
mod connection_string;
mod decode;
mod dependents;
mod end_leases;
mod enqueue;
mod enqueue_once;
mod epoch;
mod error;
mod example_item;
mod full_counters;
pub(super) mod fuzzing;
mod group_list;
mod group_pause;
mod heartbeat;
mod held_lease;
mod index;
mod inspect;
mod instance;
mod item_bytes;
mod key_source;
mod latest_now;
mod left_out;
mod list_parameters;
mod login_error;
mod migrations;
mod mirror;
mod new_item;
mod operation_batch;
mod operation_rows;
mod operations;
mod partitions;
mod parts;
mod pause;
mod pause_parts;
mod placeholders;
mod pool;
mod prepared;
mod purge;
mod purge_statements;
mod queue_statements;
mod quote;
mod reader;
mod reap;
mod refused_claim;
mod refused_settlement;
mod release_claims;
mod remedy;
mod remove;
mod restrictions;
mod run_parts;
mod search;
mod search_statements;
mod secrets;
mod server_info;
mod settings;
mod settle;
mod soft_lock_types;
mod statement_parts;
mod survey;
mod suspects;
#[cfg(test)]
mod tests;
mod trace;
mod trace_statements;
mod trials;
mod turn;
mod turn_parts;
mod types;
mod unread_claim;
mod utf16;
mod value_limits;
mod why;
mod why_statements;
mod written_columns;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{LeaseRef, Secret, SigningSecrets};
use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::LeaseSql;
use lease_broker_sql::mssql::LEASE_SQL;
use uuid::Uuid;

pub use self::adopt::MssqlSchema;
use self::operations::{MssqlOperations, run};
pub use self::pool::Pool;
use self::queue_statements::QueueStatements;
pub use self::reader::MssqlReader;
pub use self::settings::Settings;
use super::adoption::Unfit;
use super::instance::refuse_other_rule;
use super::secrets::{first_secret, replace as replace_secrets};
use super::{
    AppliedBatch, ArchiveCutoff, BrokerOrders, Browse, CancelResults, Cancellation, CancelledLease,
    ClaimCall, Claimed, Concurrency, Database, EnqueueOnce, EnqueuedOnce, Facts, GroupPause,
    Instance, LatestTime, Leases, LimitChange, NewGroupPause, NewItem, NewOperation, NewPause,
    Operate, Operation, OperationBatch, PoolStatus, PurgeStep, Purged, QueueIndex,
    QueueLimitValues, QueuePause, Reaped, ReleasedClaims, Renewal, Renewed, RetentionTurn,
    SettleResults, Settlement, StartedOperation, Store, StoreError, TraceNote, Upkeep,
};

/// Statement of the health check: it succeeds only if the database accepts writes.
const PROBE_SQL: &str = "UPDATE lease_broker_probe SET write_time = SYSUTCDATETIME() WHERE id = 0";

/// A store on a SQL Server database.
pub struct MssqlStore {
    location: String,
    secret: Secret,
    signing_secrets: Arc<SigningSecrets>,
    operations: MssqlOperations,
    reads: Arc<dyn Browse>,
}

impl MssqlStore {
    /// Connects, creates the broker's tables, applies the schema changes of managed queues, and checks the table of
    /// each queue.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if a table is not ready for its queue, or if the server refuses the login.
    /// [`StoreError::Unavailable`] if the server does not answer.
    pub async fn open(settings: &Settings, queues: &[QueueSpec]) -> Result<Self, StoreError> {
        Self::open_with_pool(&Pool::new(settings)?, queues).await
    }

    /// Does the same as [`Self::open`], with a pool that other stores may share.
    ///
    /// # Errors
    /// The same as [`Self::open`].
    pub async fn open_with_pool(pool: &Pool, queues: &[QueueSpec]) -> Result<Self, StoreError> {
        Self::open_with_sql(pool, queues, &LEASE_SQL).await
    }

    /// Does the same as [`Self::open_with_pool`], with these statements. A test gives other ones than the broker's.
    ///
    /// # Errors
    /// The same as [`Self::open`].
    ///
    /// # Panics
    /// If a section or a placeholder of a statement is missing.
    pub async fn open_with_sql(
        pool: &Pool,
        queues: &[QueueSpec],
        sql: &LeaseSql,
    ) -> Result<Self, StoreError> {
        // The future is large. On the heap it does not enlarge the futures of all callers.
        Box::pin(pool.start(async || Self::prepare(pool, queues, sql).await)).await
    }

    async fn prepare(
        pool: &Pool,
        queues: &[QueueSpec],
        sql: &LeaseSql,
    ) -> Result<Self, StoreError> {
        pool.latest_moment().forget();
        let mut connection = pool.take_first().await?;
        let mut preparing = pool.open_for_preparation().await?;
        migrations::with_migration_lock(&mut preparing, async |connection| {
            migrations::migrate(connection).await?;
            if let Some(warning) = migrations::second_set(connection).await? {
                tracing::warn!(warning, "another set of the broker's tables");
            }
            for queue in queues
                .iter()
                .filter(|queue| queue.managed_columns.is_some())
            {
                let steps = adopt::plan(connection, queue).await?;
                if steps.is_empty() {
                    continue;
                }
                refuse_other_rule(queue, &instance::list(connection).await?)?;
                let mut changing = pool.open_for_schema().await?;
                for step in &steps {
                    tracing::info!(queue = queue.name, step = step.purpose, "schema change");
                    adopt::apply(&mut changing, step, &mut |_| ()).await?;
                }
            }
            Ok(())
        })
        .await?;
        drop(preparing);
        let secrets = connection.batch(&secrets::read_statement()).await?;
        let secrets = secrets::decode(&secrets)?;
        let secret = first_secret(&secrets)?;
        let mut unfit = Unfit::default();
        for queue in queues {
            unfit.add(adopt::unfit(&mut connection, queue).await?);
        }
        unfit.into_result()?;
        let mut tables = Vec::new();
        for queue in queues {
            tables.push(QueueStatements::read(&mut connection, queue, sql).await?);
        }
        pool.latest_moment().read(&mut connection).await?;
        // The health check keeps the connection that it opens here, so that later checks need no login.
        pool.probe(PROBE_SQL).await?;
        let location = format!("{} at {}", connection.server_info, pool.address());
        drop(connection);
        let operations = MssqlOperations {
            pool: pool.clone(),
            queues: tables.into(),
        };
        for index in 0..queues.len() {
            operations.fill_row(QueueIndex(index)).await?;
        }
        Ok(Self {
            location,
            secret,
            signing_secrets: Arc::new(SigningSecrets::new(&secrets)),
            reads: Arc::new(MssqlReader {
                operations: operations.clone(),
            }),
            operations,
        })
    }
}

impl Store for MssqlStore {
    fn reads(&self) -> &Arc<dyn Browse> {
        &self.reads
    }
}

#[async_trait]
impl Facts for MssqlStore {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn signing_secrets(&self) -> &Arc<SigningSecrets> {
        &self.signing_secrets
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    fn database(&self) -> Database {
        self.operations.pool.database()
    }

    fn pool_status(&self) -> PoolStatus {
        self.operations.pool.status()
    }

    fn columns(&self, queue: QueueIndex) -> Arc<[String]> {
        self.operations.queues[queue.0].columns.clone()
    }

    async fn example_item(
        &self,
        queue: QueueIndex,
    ) -> Result<Option<Vec<(String, String)>>, StoreError> {
        run!(self.operations, example_item(queue))
    }
}

#[async_trait]
impl Leases for MssqlStore {
    fn concurrency(&self) -> Concurrency {
        Concurrency::Parallel(self.operations.pool.max_concurrent_operations())
    }

    fn withdraw_waiting(&self) {
        self.operations.pool.withdraw_waiting();
    }

    async fn claim(
        &self,
        queue: QueueIndex,
        calls: Arc<[ClaimCall]>,
        max_bytes: usize,
    ) -> Result<Vec<Claimed>, StoreError> {
        run!(self.operations, claim(queue, &calls, max_bytes))
    }

    async fn heartbeat(
        &self,
        queue: QueueIndex,
        renewals: Arc<[Renewal]>,
    ) -> Result<Vec<Renewed>, StoreError> {
        run!(self.operations, heartbeat(queue, &renewals))
    }

    async fn settle(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<SettleResults, StoreError> {
        run!(self.operations, settle(queue, &settlements))
    }

    async fn release_claims(
        &self,
        queue: QueueIndex,
        tokens: Arc<[Uuid]>,
    ) -> Result<ReleasedClaims, StoreError> {
        run!(self.operations, release_claims(queue, &tokens))
    }

    async fn note_traces(
        &self,
        queue: QueueIndex,
        notes: Arc<[TraceNote]>,
    ) -> Result<(), StoreError> {
        run!(self.operations, note_traces(queue, &notes))
    }

    async fn find_expired_untraced(
        &self,
        queue: QueueIndex,
        limit: usize,
    ) -> Result<(Vec<LeaseRef>, i64), StoreError> {
        run!(self.operations, find_expired_untraced(queue, limit))
    }

    async fn find_leased_untraced(
        &self,
        queue: QueueIndex,
        keys: Arc<[Key]>,
    ) -> Result<Vec<LeaseRef>, StoreError> {
        run!(self.operations, find_leased_untraced(queue, &keys))
    }

    async fn cancel(
        &self,
        queue: QueueIndex,
        leases: Arc<[CancelledLease]>,
        cancellation: Cancellation,
    ) -> Result<CancelResults, StoreError> {
        run!(self.operations, cancel(queue, &leases, &cancellation))
    }

    async fn reap(
        &self,
        queue: QueueIndex,
        limit: usize,
        latest: Option<LatestTime>,
        until: Option<i64>,
    ) -> Result<Reaped, StoreError> {
        run!(self.operations, reap(queue, limit, latest, until))
    }

    async fn enqueue(
        &self,
        queue: QueueIndex,
        items: Arc<[NewItem]>,
    ) -> Result<Vec<Key>, StoreError> {
        run!(self.operations, enqueue(queue, &items))
    }

    async fn enqueue_once(
        &self,
        queue: QueueIndex,
        request: Arc<EnqueueOnce>,
    ) -> Result<EnqueuedOnce, StoreError> {
        run!(self.operations, enqueue_once(queue, &request))
    }
}

#[async_trait]
impl Operate for MssqlStore {
    async fn pause(&self, queue: QueueIndex, pause: NewPause) -> Result<QueuePause, StoreError> {
        run!(self.operations, pause(queue, &pause))
    }

    async fn resume(&self, queue: QueueIndex) -> Result<Option<QueuePause>, StoreError> {
        run!(self.operations, resume(queue))
    }

    async fn set_limits(
        &self,
        queue: QueueIndex,
        change: LimitChange,
    ) -> Result<QueueLimitValues, StoreError> {
        run!(self.operations, set_limits(queue, change))
    }

    async fn pause_group(
        &self,
        queue: QueueIndex,
        group: Key,
        pause: NewGroupPause,
    ) -> Result<Option<GroupPause>, StoreError> {
        run!(self.operations, pause_group(queue, group, pause))
    }

    async fn resume_group(
        &self,
        queue: QueueIndex,
        group: Key,
    ) -> Result<Option<GroupPause>, StoreError> {
        run!(self.operations, resume_group(queue, group))
    }

    async fn start_operation(
        &self,
        queue: QueueIndex,
        operation: NewOperation,
    ) -> Result<StartedOperation, StoreError> {
        run!(self.operations, start_operation(queue, &operation))
    }

    async fn cancel_operation(
        &self,
        id: Uuid,
        actor: &str,
    ) -> Result<Option<Operation>, StoreError> {
        let actor = actor.to_owned();
        run!(self.operations, cancel_operation(id, &actor))
    }

    async fn take_operation(
        &self,
        queues: &[String],
        broker: Uuid,
        duration: Duration,
    ) -> Result<Option<Operation>, StoreError> {
        let queues = queues.to_vec();
        run!(self.operations, take_operation(&queues, broker, duration))
    }

    async fn apply_batch(
        &self,
        queue: QueueIndex,
        batch: OperationBatch,
    ) -> Result<AppliedBatch, StoreError> {
        run!(self.operations, apply_batch(queue, &batch))
    }

    async fn request_drain(&self, broker: Uuid) -> Result<bool, StoreError> {
        run!(self.operations, request_drain(broker))
    }

    async fn read_orders(
        &self,
        broker: Uuid,
        queues: &[String],
    ) -> Result<BrokerOrders, StoreError> {
        let queues = queues.to_vec();
        run!(self.operations, read_orders(broker, &queues))
    }
}

#[async_trait]
impl Upkeep for MssqlStore {
    async fn read_secrets(&self) -> Result<(), StoreError> {
        let stored = run!(self.operations, read_secrets())?;
        replace_secrets(&self.signing_secrets, &stored)
    }

    async fn rotate_secrets(&self, accept_old_for: Duration) -> Result<u8, StoreError> {
        run!(self.operations, rotate_secrets(accept_old_for))
    }

    async fn forget_requests(&self, limit: usize) -> Result<usize, StoreError> {
        run!(self.operations, forget_requests(limit))
    }

    async fn purge(&self, queue: QueueIndex, step: PurgeStep) -> Result<Purged, StoreError> {
        run!(self.operations, purge(queue, &step))
    }

    async fn purge_archive(
        &self,
        queue: QueueIndex,
        cutoff: ArchiveCutoff,
        limit: usize,
    ) -> Result<usize, StoreError> {
        run!(self.operations, purge_archive(queue, cutoff, limit))
    }

    async fn count_archived(&self, queue: QueueIndex, before: i64) -> Result<u64, StoreError> {
        run!(self.operations, count_archived(queue, before))
    }

    async fn take_retention_turn(
        &self,
        queue: QueueIndex,
        broker: Uuid,
        duration: Duration,
    ) -> Result<RetentionTurn, StoreError> {
        run!(
            self.operations,
            take_retention_turn(queue, broker, duration)
        )
    }

    async fn announce(&self, instance: Arc<Instance>) -> Result<Vec<Instance>, StoreError> {
        run!(self.operations, announce(&instance))
    }

    async fn probe(&self) -> Result<(), StoreError> {
        self.operations.probe(PROBE_SQL).await
    }
}
