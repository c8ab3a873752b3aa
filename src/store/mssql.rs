//! The SQL Server store: leases in tables of a SQL Server database, or of Babelfish.

mod adopt;
mod adopt_sql;
mod backfill;
mod catalogue;
mod claim;
mod connect;
mod connection;
mod connection_string;
mod decode;
mod enqueue;
mod error;
mod heartbeat;
mod index;
mod inspect;
mod list_parameters;
mod migrations;
mod mirror;
mod new_item;
mod placeholders;
mod pool;
mod prepared;
mod queue_statements;
mod quote;
mod reap;
mod remove;
mod server_info;
mod settings;
mod settle;
mod soft_lock_types;
#[cfg(test)]
mod tests;
mod types;
mod value_limits;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::adopt::MssqlSchema;
use self::inspect::CountMethod;
pub use self::pool::Pool;
use self::queue_statements::QueueStatements;
pub use self::settings::Settings;
use super::{
    ClaimCall, ClaimedItem, LeaseExpiry, ListedItem, NewItem, QueueIndex, Reaped, Renewal,
    Settlement, Stats, Store, StoreError,
};
use crate::item_state::State;
use crate::lease_id::Secret;
use crate::queue::QueueSpec;
use crate::value::Key;

/// Finds out whether the database can be written to.
const PROBE: &str =
    "UPDATE lease_broker_meta SET value = CONVERT(varbinary(64), NEWID()) WHERE name = 'probe'";

/// A store on a SQL Server database.
pub struct MssqlStore {
    place: String,
    secret: Secret,
    mssql: Mssql,
}

/// What operations work with; every copy is the same.
#[derive(Clone)]
struct Mssql {
    pool: Pool,
    queues: Arc<[QueueStatements]>,
}

impl Mssql {
    fn queue(&self, queue: QueueIndex) -> Result<&QueueStatements, StoreError> {
        self.queues
            .get(queue.0)
            .ok_or_else(|| StoreError::Bug(format!("no queue number {}", queue.0)))
    }
}

impl MssqlStore {
    /// Connects, makes the broker's own tables and those of managed queues, and checks every queue's table.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if a queue's table lacks something, or the login is refused.
    /// [`StoreError::Unavailable`] if the server does not answer.
    pub async fn open(settings: &Settings, queues: &[QueueSpec]) -> Result<Self, StoreError> {
        Self::open_over(&Pool::new(settings)?, queues).await
    }

    /// Does what [`Self::open`] does, over connections that other stores may use too.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub async fn open_over(pool: &Pool, queues: &[QueueSpec]) -> Result<Self, StoreError> {
        // Its state is large: on the heap it does not weigh on every caller's.
        Box::pin(Self::prepare(pool, queues)).await
    }

    async fn prepare(pool: &Pool, queues: &[QueueSpec]) -> Result<Self, StoreError> {
        let mut connection = pool.take().await?;
        migrations::with_migration_lock(&mut connection, async |connection| {
            migrations::migrate(connection).await?;
            for queue in queues.iter().filter(|queue| queue.managed.is_some()) {
                let steps = adopt::plan(connection, queue).await?;
                for step in &steps {
                    adopt::apply(connection, step, &mut |_| ()).await?;
                }
                if !steps.is_empty() {
                    // Steps wait for locks as long as it takes; operations, which use this connection next, don't.
                    connection.restore_options().await?;
                }
            }
            Ok(())
        })
        .await?;
        let secret = migrations::secret(&mut connection).await?;
        let mut missing = Vec::new();
        for queue in queues {
            missing.extend(adopt::check(&mut connection, queue).await?);
        }
        if !missing.is_empty() {
            return Err(StoreError::Misconfigured(missing.join("; ")));
        }
        let mut tables = Vec::new();
        for queue in queues {
            tables.push(QueueStatements::read(&mut connection, queue).await?);
        }
        // Its connection is kept, so that later ones need no login.
        pool.probe(PROBE).await?;
        let place = format!("{} at {}", connection.server_info, pool.address());
        drop(connection);
        Ok(Self {
            place,
            secret,
            mssql: Mssql {
                pool: pool.clone(),
                queues: tables.into(),
            },
        })
    }

    /// Runs an operation to its end in a task of its own, whether or not the caller waits for it.
    async fn run<T, Run>(&self, operation: impl FnOnce(Mssql) -> Run) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Run: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let task = tokio::spawn(operation(self.mssql.clone()));
        task.await
            .map_err(|error| StoreError::Bug(format!("an operation ended early: {error}")))?
    }
}

#[async_trait]
impl Store for MssqlStore {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn location(&self) -> String {
        self.place.clone()
    }

    fn max_concurrent_operations(&self) -> usize {
        self.mssql.pool.width()
    }

    fn columns(&self, queue: QueueIndex) -> Arc<[String]> {
        self.mssql.queues[queue.0].columns.clone()
    }

    async fn claim(
        &self,
        queue: QueueIndex,
        calls: Arc<[ClaimCall]>,
    ) -> Result<Vec<Vec<ClaimedItem>>, StoreError> {
        self.run(async move |mssql: Mssql| mssql.claim(queue, &calls).await)
            .await
    }

    async fn heartbeat(
        &self,
        queue: QueueIndex,
        renewals: Arc<[Renewal]>,
    ) -> Result<Vec<Option<LeaseExpiry>>, StoreError> {
        self.run(async move |mssql: Mssql| mssql.heartbeat(queue, &renewals).await)
            .await
    }

    async fn settle(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<Vec<Option<State>>, StoreError> {
        self.run(async move |mssql: Mssql| mssql.settle(queue, &settlements).await)
            .await
    }

    async fn reap(&self, queue: QueueIndex, limit: usize) -> Result<Reaped, StoreError> {
        self.run(async move |mssql: Mssql| mssql.reap(queue, limit).await)
            .await
    }

    async fn enqueue(
        &self,
        queue: QueueIndex,
        items: Arc<[NewItem]>,
    ) -> Result<Vec<Key>, StoreError> {
        self.run(async move |mssql: Mssql| mssql.enqueue(queue, &items).await)
            .await
    }

    async fn stats(&self, queue: QueueIndex) -> Result<Stats, StoreError> {
        let counted = CountMethod::Statistics;
        self.run(async move |mssql: Mssql| mssql.stats(queue, counted).await)
            .await
    }

    async fn exact_stats(&self, queue: QueueIndex) -> Result<Stats, StoreError> {
        let counted = CountMethod::Scan;
        self.run(async move |mssql: Mssql| mssql.stats(queue, counted).await)
            .await
    }

    async fn list(
        &self,
        queue: QueueIndex,
        state: State,
        limit: usize,
    ) -> Result<Vec<ListedItem>, StoreError> {
        self.run(async move |mssql: Mssql| mssql.list(queue, state, limit).await)
            .await
    }

    async fn redrive(&self, queue: QueueIndex, limit: usize) -> Result<usize, StoreError> {
        self.run(async move |mssql: Mssql| mssql.redrive(queue, limit).await)
            .await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        self.mssql.pool.probe(PROBE).await
    }
}
