//! The reads of the store: a part of the store that writes, or a store that only reads.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::mssql::LEASE_SQL;
use uuid::Uuid;

use super::inspect::CountMethod;
use super::operations::{MssqlOperations, implement, run};
use super::queue_statements::QueueStatements;
use super::restrictions::Purpose;
use super::{Pool, Settings, adopt};
use crate::adoption::Unfit;
use crate::{
    BrokerList, Browse, FoundGroups, FoundItems, GroupSearch, ItemFacts, ItemRecord, ItemSearch,
    ListedItem, Operation, QueueIndex, QueuePause, Stats, StoreError,
};

/// Reads the leases in a SQL Server database. A login with SELECT on the queues' tables is enough.
pub struct MssqlReader {
    pub(super) operations: MssqlOperations,
}

impl MssqlReader {
    /// Connects and checks the table of each queue. Creates and changes no table, and takes no application lock.
    ///
    /// # Errors
    /// Those of [`MssqlStore::open`](super::MssqlStore::open).
    pub async fn open(settings: &Settings, queues: &[QueueSpec]) -> Result<Self, StoreError> {
        let settings = Settings {
            // A command that only looks needs a connection at a time, and one or two more to find who holds a lock.
            min_idle_connections: 0,
            max_connections: settings.max_connections.max(3),
            ..settings.for_operator()
        };
        Self::open_with_pool(&Pool::new(&settings)?, queues).await
    }

    /// Does the same as [`Self::open`], with a pool that other stores may share.
    ///
    /// # Errors
    /// The same as [`Self::open`].
    pub async fn open_with_pool(pool: &Pool, queues: &[QueueSpec]) -> Result<Self, StoreError> {
        // The future is large. On the heap it does not enlarge the futures of all callers.
        Box::pin(pool.start(async || Self::prepare(pool, queues).await)).await
    }

    async fn prepare(pool: &Pool, queues: &[QueueSpec]) -> Result<Self, StoreError> {
        let mut connection = pool.take_first().await?;
        let queues: Vec<QueueSpec> = queues.iter().map(QueueSpec::to_inspect).collect();
        let mut unfit = Unfit::default();
        for queue in &queues {
            unfit.add(adopt::unfit(&mut connection, queue, Purpose::Look).await?);
        }
        unfit.into_result()?;
        let mut tables = Vec::new();
        for queue in &queues {
            tables.push(QueueStatements::read(&mut connection, queue, &LEASE_SQL).await?);
        }
        Ok(Self {
            operations: MssqlOperations {
                pool: pool.clone(),
                queues: tables.into(),
            },
        })
    }
}

implement! {
    Browse for MssqlReader {
        fn parse_key(&self, queue: QueueIndex, text: &str) -> Result<Key, String> {
            self.operations.queues[queue.0].parse_key(text)
        }

        fn parse_group(&self, queue: QueueIndex, text: &str) -> Result<Key, String> {
            self.operations.queues[queue.0].parse_group(text)
        }

        async fn timed_stats(
            &self,
            queue: QueueIndex,
            within: Option<Duration>,
        ) -> Result<(Stats, Duration), StoreError> {
            let method = CountMethod::Statistics;
            run!(self.operations, stats(queue, method, within))
        }

        async fn exact_stats(&self, queue: QueueIndex) -> Result<Stats, StoreError> {
            let method = CountMethod::Scan;
            let (stats, _) = run!(self.operations, stats(queue, method, None))?;
            Ok(stats)
        }
    }
    list(queue: QueueIndex, state: State, limit: usize) -> Vec<ListedItem>;
    item_facts(queue: QueueIndex, (&)key: Key) -> ItemFacts;
    find_items(queue: QueueIndex, (&)search: ItemSearch) -> FoundItems;
    find_keys(queue: QueueIndex, (&)keys: Arc<[Key]>) -> FoundItems;
    read_item(queue: QueueIndex, (&)key: Key) -> Option<ItemRecord>;
    find_groups(queue: QueueIndex, (&)search: GroupSearch) -> FoundGroups;
    pauses() -> Vec<QueuePause>;
    operation(id: Uuid) -> Option<Operation>;
    operations((&)queues: Arc<[String]>, only_running: bool, before: Option<Uuid>, limit: usize) -> Vec<Operation>;
    brokers() -> BrokerList;
}
