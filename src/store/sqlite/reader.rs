//! The reads of the store: the second connection of a store that writes, or a store that only reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::sqlite::LEASE_SQL;
use parking_lot::Mutex;
use rusqlite::Connection;
use uuid::Uuid;

use super::adopt::SqliteSchema;
use super::clock::Clock;
use super::log_flush::LogFlush;
use super::queue_statements::QueueStatements;
use super::read_connection::ReadConnection;
use super::{group_list, inspect, instance, operations, pause, search, why};
use crate::adoption::Unfit;
use crate::{
    BrokerList, Browse, FoundGroups, FoundItems, GroupSearch, ItemFacts, ItemRecord, ItemSearch,
    ListedItem, Operation, QueueIndex, QueuePause, Stats, StoreError,
};

/// Reads the leases in an SQLite file. It needs no right to write, and does not wait for a program that writes.
#[derive(Clone)]
pub struct SqliteReader {
    connection: Arc<Mutex<ReadConnection>>,
    path: PathBuf,
    queues: Arc<[QueueStatements]>,
    clock: Clock,
    /// `None`: reads show commits that the device may not have yet.
    log: Option<Arc<LogFlush>>,
}

impl SqliteReader {
    /// Opens the file and checks the table of every queue. Neither creates nor changes a file.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if a queue's table does not fit the queue. [`StoreError::Io`] if the file is damaged, cannot be
    /// opened or does not exist. [`StoreError::Unavailable`] if another program has locked the file even for readers.
    pub fn open(path: &Path, queues: &[QueueSpec], clock: Clock) -> Result<Self, StoreError> {
        let queues: Vec<QueueSpec> = queues.iter().map(QueueSpec::to_inspect).collect();
        let connection = ReadConnection::open(path)?;
        let (connection, queues) = connection.try_map(|connection| {
            let schema = SqliteSchema::over(connection);
            let mut unfit = Unfit::default();
            for queue in &queues {
                unfit.add(schema.unfit(queue)?);
            }
            unfit.into_result()?;
            let connection = schema.into_connection();
            let queues = queues
                .iter()
                .map(|queue| QueueStatements::new(&connection, queue, &LEASE_SQL))
                .collect::<Result<Arc<[_]>, _>>()?;
            Ok((connection, queues))
        })?;
        Ok(Self::new(connection, queues, clock))
    }

    pub(super) fn new(
        connection: ReadConnection,
        queues: Arc<[QueueStatements]>,
        clock: Clock,
    ) -> Self {
        Self {
            path: connection.path().to_owned(),
            connection: Arc::new(Mutex::new(connection)),
            queues,
            clock,
            log: None,
        }
    }

    /// Makes each read wait until the device has what it saw. A broker writes commits to the device later than to the file.
    pub(super) fn flushing(self, log: Arc<LogFlush>) -> Self {
        Self {
            log: Some(log),
            ..self
        }
    }

    /// Runs a read operation on a queue. See [`Self::read_file`].
    pub(super) async fn read<T: Send + 'static>(
        &self,
        queue: QueueIndex,
        read: impl Fn(&Connection, &QueueStatements, i64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_within(None, queue, read).await
    }

    /// Does the same as [`Self::read`]. If the statements take longer than `limit`, they are ended.
    async fn read_within<T: Send + 'static>(
        &self,
        limit: Option<Duration>,
        queue: QueueIndex,
        read: impl Fn(&Connection, &QueueStatements, i64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let queues = self.queues.clone();
        self.read_file_within(limit, move |connection, now| {
            let queue = queues.get(queue.0).ok_or_else(|| {
                StoreError::Bug(format!("the store has no queue with index {}", queue.0))
            })?;
            read(connection, queue, now)
        })
        .await
    }

    /// Runs a read operation with the present time. In WAL mode it does not wait for a writer.
    pub(super) async fn read_file<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection, i64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_file_within(None, read).await
    }

    async fn read_file_within<T: Send + 'static>(
        &self,
        limit: Option<Duration>,
        read: impl Fn(&Connection, i64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let now = (self.clock)();
        self.run_blocking(move |reader| {
            let mut connection = reader.connection.lock();
            let found = connection.read_within(limit, |connection| read(connection, now))?;
            if let Some(log) = &reader.log {
                connection.flush_seen(log)?;
            }
            Ok(found)
        })
        .await
    }

    /// Reads tables of the brokers. Returns the default if they do not exist.
    async fn read_broker_tables<T: Default + Send + 'static>(
        &self,
        read: impl Fn(&Connection, i64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_file(move |connection, now| {
            if pause::has_tables(connection)? {
                read(connection, now)
            } else {
                Ok(T::default())
            }
        })
        .await
    }

    /// Runs `work` on a thread for blocking work.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = self.clone();
        let task = tokio::task::spawn_blocking(move || work(&reader));
        task.await
            .map_err(|error| StoreError::Bug(format!("a read operation panicked: {error}")))?
    }
}

#[async_trait]
impl Browse for SqliteReader {
    fn parse_key(&self, queue: QueueIndex, text: &str) -> Result<Key, String> {
        self.queues[queue.0].parse_key(text)
    }

    fn finds_nul(&self) -> bool {
        true
    }

    fn parse_group(&self, queue: QueueIndex, text: &str) -> Result<Key, String> {
        self.queues[queue.0].parse_group(text)
    }

    fn check_group_type(&self, queue: QueueIndex, group: &Key) -> Result<(), String> {
        self.queues[queue.0].check_group_type(group)
    }

    async fn timed_stats(
        &self,
        queue: QueueIndex,
        within: Option<Duration>,
    ) -> Result<(Stats, Duration), StoreError> {
        self.read_within(within, queue, inspect::timed_stats).await
    }

    async fn exact_stats(&self, queue: QueueIndex) -> Result<Stats, StoreError> {
        self.read(queue, inspect::exact_stats).await
    }

    async fn list(
        &self,
        queue: QueueIndex,
        state: State,
        limit: usize,
    ) -> Result<Vec<ListedItem>, StoreError> {
        let list = move |connection: &Connection, queue: &QueueStatements, now| {
            inspect::list(connection, queue, state, limit, now)
        };
        self.read(queue, list).await
    }

    async fn item_facts(&self, queue: QueueIndex, key: Key) -> Result<ItemFacts, StoreError> {
        let collect = move |connection: &Connection, queue: &QueueStatements, now| {
            why::item_facts(connection, queue, &key, now)
        };
        let mut facts = self.read(queue, collect).await?;
        if facts.row.is_some() {
            let find = |reader: &Self| {
                let is_shared = reader.connection.lock().is_shared();
                Ok(is_shared.then(|| why::find_lock(&reader.path)).flatten())
            };
            facts.lock = self.run_blocking(find).await?;
        }
        Ok(facts)
    }

    async fn find_items(
        &self,
        queue: QueueIndex,
        search: ItemSearch,
    ) -> Result<FoundItems, StoreError> {
        let find = move |connection: &Connection, queue: &QueueStatements, now| {
            search::find_items(connection, queue, &search, now)
        };
        self.read(queue, find).await
    }

    async fn find_keys(
        &self,
        queue: QueueIndex,
        keys: Arc<[Key]>,
    ) -> Result<FoundItems, StoreError> {
        let find = move |connection: &Connection, queue: &QueueStatements, now| {
            search::find_keys(connection, queue, &keys, now)
        };
        self.read(queue, find).await
    }

    async fn read_item(
        &self,
        queue: QueueIndex,
        key: Key,
    ) -> Result<Option<ItemRecord>, StoreError> {
        let read = move |connection: &Connection, queue: &QueueStatements, now| {
            search::read_item(connection, queue, &key, now)
        };
        self.read(queue, read).await
    }

    async fn find_groups(
        &self,
        queue: QueueIndex,
        search: GroupSearch,
    ) -> Result<FoundGroups, StoreError> {
        let find = move |connection: &Connection, queue: &QueueStatements, now| {
            group_list::find_groups(connection, queue, &search, now)
        };
        self.read(queue, find).await
    }

    async fn pauses(&self) -> Result<Vec<QueuePause>, StoreError> {
        self.read_broker_tables(pause::read_all).await
    }

    async fn operation(&self, id: Uuid) -> Result<Option<Operation>, StoreError> {
        self.read_broker_tables(move |connection, _| operations::read(connection, id))
            .await
    }

    async fn operations(
        &self,
        queues: Arc<[String]>,
        only_running: bool,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError> {
        let list = move |connection: &Connection, _| {
            operations::list(connection, &queues, only_running, before, limit)
        };
        self.read_broker_tables(list).await
    }

    async fn brokers(&self) -> Result<BrokerList, StoreError> {
        let listed = self.read_file(instance::list).await?;
        Ok(listed.unwrap_or_else(|| BrokerList {
            now: (self.clock)(),
            brokers: Vec::new(),
        }))
    }
}
