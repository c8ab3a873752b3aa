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
mod index_key_size;
mod inspect;
mod instance;
mod item_bytes;
mod key_source;
mod latest_now;
mod left_out;
mod list_parameters;
mod login_error;
mod logins;
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
use lease_broker_model::lease_id::{Secret, SigningSecrets};
use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::LeaseSql;
use lease_broker_sql::mssql::LEASE_SQL;
use uuid::Uuid;

pub use self::adopt::MssqlSchema;
use self::operations::{MssqlOperations, implement, run};
pub use self::pool::Pool;
use self::queue_statements::QueueStatements;
pub use self::reader::MssqlReader;
use self::restrictions::Purpose;
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
    SettleResults, Settlement, StartedOperation, Store, StoreError, Upkeep,
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
        let secrets = secrets::read(&mut connection).await?;
        let secret = first_secret(&secrets)?;
        let mut unfit = Unfit::default();
        for queue in queues {
            unfit.add(adopt::unfit(&mut connection, queue, Purpose::Lease).await?);
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

implement! {
    Leases for MssqlStore {
        fn concurrency(&self) -> Concurrency {
            Concurrency::Parallel(self.operations.pool.max_concurrent_operations())
        }

        fn withdraw_waiting(&self) {
            self.operations.pool.withdraw_waiting();
        }
    }
    claim(queue: QueueIndex, (&)calls: Arc<[ClaimCall]>, max_bytes: usize) -> Vec<Claimed>;
    heartbeat(queue: QueueIndex, (&)renewals: Arc<[Renewal]>) -> Vec<Renewed>;
    settle(queue: QueueIndex, (&)settlements: Arc<[Settlement]>) -> SettleResults;
    release_claims(queue: QueueIndex, (&)tokens: Arc<[Uuid]>) -> ReleasedClaims;
    cancel(queue: QueueIndex, (&)leases: Arc<[CancelledLease]>, (&)cancellation: Cancellation) -> CancelResults;
    reap(queue: QueueIndex, limit: usize, latest: Option<LatestTime>) -> Reaped;
    enqueue(queue: QueueIndex, (&)items: Arc<[NewItem]>) -> Vec<Key>;
    enqueue_once(queue: QueueIndex, (&)request: Arc<EnqueueOnce>) -> EnqueuedOnce;
}

implement! {
    Operate for MssqlStore {
        async fn cancel_operation(&self, id: Uuid, actor: &str) -> Result<Option<Operation>, StoreError> {
            let actor = actor.to_owned();
            run!(self.operations, cancel_operation(id, &actor))
        }

        async fn read_orders(&self, broker: Uuid, queues: &[String]) -> Result<BrokerOrders, StoreError> {
            let queues = queues.to_vec();
            run!(self.operations, read_orders(broker, &queues))
        }
    }
    pause(queue: QueueIndex, (&)pause: NewPause) -> QueuePause;
    resume(queue: QueueIndex) -> Option<QueuePause>;
    set_limits(queue: QueueIndex, change: LimitChange) -> QueueLimitValues;
    pause_group(queue: QueueIndex, group: Key, pause: NewGroupPause) -> Option<GroupPause>;
    resume_group(queue: QueueIndex, group: Key) -> Option<GroupPause>;
    start_operation(queue: QueueIndex, (&)operation: NewOperation) -> StartedOperation;
    take_operation(id: Uuid, broker: Uuid, duration: Duration) -> Option<Operation>;
    apply_batch(queue: QueueIndex, (&)batch: OperationBatch) -> AppliedBatch;
    request_drain(broker: Uuid) -> bool;
}

implement! {
    Upkeep for MssqlStore {
        async fn read_secrets(&self) -> Result<(), StoreError> {
            let stored = run!(self.operations, read_secrets())?;
            replace_secrets(&self.signing_secrets, &stored)
        }

        async fn probe(&self) -> Result<(), StoreError> {
            self.operations.probe(PROBE_SQL).await
        }
    }
    rotate_secrets(accept_old_for: Duration) -> u8;
    forget_requests(limit: usize) -> usize;
    purge(queue: QueueIndex, (&)step: PurgeStep) -> Purged;
    purge_archive(queue: QueueIndex, cutoff: ArchiveCutoff, limit: usize) -> usize;
    count_archived(queue: QueueIndex, before: i64) -> u64;
    take_retention_turn(queue: QueueIndex, broker: Uuid, duration: Duration) -> RetentionTurn;
    announce((&)instance: Arc<Instance>) -> Vec<Instance>;
}
