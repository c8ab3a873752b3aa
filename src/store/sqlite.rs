//! The embedded store: leases in the tables of one `SQLite` file, shared by any number of broker processes on its host.

mod adopt;
mod by_state;
mod catalogue;
mod claim;
mod connection;
mod count;
mod enqueue;
mod error;
mod inspect;
mod migrations;
mod mirror;
mod placeholders;
#[cfg(test)]
mod query_plans;
mod quote;
mod reap;
mod settle;
mod statement;
mod table;
mod types;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rusqlite::Connection;

pub use self::adopt::SqliteSchema;
use self::table::QueueTable;
use self::writer::{Session, Writer};
use super::schema::Schema as _;
use super::{
    ClaimCall, ClaimedItem, Extension, Held, ListedItem, NewItem, QueueIndex, Reaped, Settlement,
    Stats, Store, StoreError,
};
use crate::item_state::State;
use crate::lease_id::Secret;
use crate::queue::QueueSpec;
use crate::value::Key;

/// Tells the time in milliseconds since 1970-01-01T00:00:00Z. A test may move it.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Returns the clock of the host that the file is on.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
    })
}

/// A store on a `SQLite` file.
pub struct SqliteStore {
    path: PathBuf,
    secret: Secret,
    queues: Arc<[QueueTable]>,
    clock: Clock,
    writer: Writer,
    reader: Arc<Mutex<Connection>>,
}

impl SqliteStore {
    /// Opens the file, makes the broker's own tables and those of managed queues, and checks every queue's table.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if a queue's table lacks something: the text names all that is missing.
    /// [`StoreError::Io`] if the file is damaged, can't be written or can't be opened.
    pub fn open(path: &Path, queues: &[QueueSpec], clock: Clock) -> Result<Self, StoreError> {
        let connection = connection::open(path)?;
        migrations::migrate(&connection)?;
        let secret = migrations::secret(&connection)?;
        let mut schema = SqliteSchema::over(connection);
        let mut missing = Vec::new();
        for queue in queues {
            if queue.managed.is_some() {
                apply_in_one_transaction(&mut schema, queue)?;
            }
            missing.extend(schema.check(queue)?);
        }
        if !missing.is_empty() {
            return Err(StoreError::Misconfigured(missing.join("; ")));
        }
        let connection = schema.into_connection();
        let queues: Arc<[QueueTable]> = queues
            .iter()
            .map(|queue| QueueTable::new(&connection, queue))
            .collect::<Result<_, _>>()?;
        let reader = Arc::new(Mutex::new(connection::open(path)?));
        let session = Session::new(connection, queues.clone(), clock.clone());
        Ok(Self {
            path: path.to_owned(),
            secret,
            queues,
            clock,
            writer: Writer::spawn(session)?,
            reader,
        })
    }

    /// Reads with the second connection, which never waits for the writer.
    async fn read<T: Send + 'static>(
        &self,
        queue: QueueIndex,
        read: impl FnOnce(&Connection, &QueueTable, i64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reader, queues, now) = (self.reader.clone(), self.queues.clone(), (self.clock)());
        let task = tokio::task::spawn_blocking(move || {
            let connection = reader.lock().unwrap_or_else(PoisonError::into_inner);
            read(&connection, &queues[queue.0], now)
        });
        task.await
            .map_err(|error| StoreError::Bug(format!("a read ended early: {error}")))?
    }
}

/// Two brokers may start at the same time: the one that has waited for the lock finds nothing left to do.
fn apply_in_one_transaction(
    schema: &mut SqliteSchema,
    queue: &QueueSpec,
) -> Result<(), StoreError> {
    if schema.plan(queue)?.is_empty() {
        return Ok(());
    }
    schema.transaction(|schema| {
        for step in schema.plan(queue)? {
            schema.apply(&step, &mut |_| ())?;
        }
        Ok(())
    })
}

#[async_trait]
impl Store for SqliteStore {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn width(&self) -> usize {
        // One thread writes, and runs what has come in together.
        1
    }

    fn columns(&self, queue: QueueIndex) -> Arc<[String]> {
        self.queues[queue.0].columns.clone()
    }

    async fn claim(
        &self,
        queue: QueueIndex,
        calls: Arc<[ClaimCall]>,
    ) -> Result<Vec<Vec<ClaimedItem>>, StoreError> {
        let claim = move |session: &Session| claim::claim(session, queue, &calls);
        self.writer.run(claim).await
    }

    async fn heartbeat(
        &self,
        queue: QueueIndex,
        extensions: Arc<[Extension]>,
    ) -> Result<Vec<Option<Held>>, StoreError> {
        let extend = move |session: &Session| claim::heartbeat(session, queue, &extensions);
        self.writer.run(extend).await
    }

    async fn settle(
        &self,
        queue: QueueIndex,
        settlements: Arc<[Settlement]>,
    ) -> Result<Vec<Option<State>>, StoreError> {
        let settle = move |session: &Session| settle::settle(session, queue, &settlements);
        self.writer.run(settle).await
    }

    async fn reap(&self, queue: QueueIndex, limit: usize) -> Result<Reaped, StoreError> {
        let reap = move |session: &Session| reap::reap(session, queue, limit);
        self.writer.run(reap).await
    }

    async fn enqueue(
        &self,
        queue: QueueIndex,
        items: Arc<[NewItem]>,
    ) -> Result<Vec<Key>, StoreError> {
        let enqueue = move |session: &Session| enqueue::enqueue(session, queue, &items);
        self.writer.run(enqueue).await
    }

    async fn stats(&self, queue: QueueIndex) -> Result<Stats, StoreError> {
        self.read(queue, inspect::stats).await
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
        let list = move |connection: &Connection, table: &QueueTable, now| {
            inspect::list(connection, table, state, limit, now)
        };
        self.read(queue, list).await
    }

    async fn redrive(&self, queue: QueueIndex, limit: usize) -> Result<usize, StoreError> {
        let redrive = move |session: &Session| inspect::redrive(session, queue, limit);
        self.writer.run(redrive).await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        let write = "UPDATE lease_broker_meta SET value = value + 1 WHERE name = 'probe'";
        self.writer
            .run(move |session| {
                session.connection.prepare_cached(write)?.execute([])?;
                Ok(())
            })
            .await
    }
}
