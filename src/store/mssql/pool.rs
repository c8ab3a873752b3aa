//! The connections of a broker: opened when needed, never handed on in the middle of a stream, replaced when they are old.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool::managed::{
    self, Manager, Metrics, Object, PoolError, QueueMode, RecycleError, RecycleResult,
};
use futures_util::future::join_all;
use tiberius::{Config, Row, ToSql};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::Settings;
use super::connection::Connection;
use super::error::{OperationFailure, RetrySafety, timed_out};
use crate::store::StoreError;

/// How many connections are opened at the same time: a server that comes back is not run down.
const MAX_CONCURRENT_CONNECTS: usize = 4;
/// How often an operation is tried in all.
const MAX_TRIES: u32 = 5;
/// The pause before the first retry is up to twice as long, and doubles with each further one.
const RETRY_DELAY: Duration = Duration::from_millis(10);
/// How often old and idle connections are looked after.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(15);

/// Opens and checks connections.
pub(super) struct ConnectionManager {
    server: Config,
    settings: Settings,
    connect_permits: Semaphore,
    /// When a connection was last found broken.
    last_failure: Mutex<Option<Instant>>,
}

impl ConnectionManager {
    fn new(settings: &Settings) -> Result<Self, StoreError> {
        Ok(Self {
            server: settings.server()?,
            settings: settings.clone(),
            connect_permits: Semaphore::new(MAX_CONCURRENT_CONNECTS),
            last_failure: Mutex::new(None),
        })
    }

    /// Takes note that a connection broke: the others are asked before they are trusted again.
    fn found_broken(&self) {
        *self
            .last_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns whether a connection is to be replaced. A share of the lifetime is random: connections opened together are
    /// not all replaced together.
    fn is_old(&self, connection: &Connection) -> bool {
        let share: f64 = rand::random_range(0.8..1.0);
        connection.age() > self.settings.max_connection_age.mul_f64(share)
    }
}

impl Manager for ConnectionManager {
    type Type = Connection;
    type Error = StoreError;

    async fn create(&self) -> Result<Connection, StoreError> {
        let _turn = self.connect_permits.acquire().await;
        Connection::open(&self.server, &self.settings).await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<StoreError> {
        if self.is_old(connection) {
            return Err(RecycleError::message("it is old"));
        }
        let last_failure = *self
            .last_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let reset = connection.reset(last_failure).await;
        reset.map_err(RecycleError::message)
    }
}

/// ConnectionManager to a database: a broker's, or those that several stores of one process share.
#[derive(Clone)]
pub struct Pool {
    pool: managed::Pool<ConnectionManager>,
    /// Answers whether the server is there, when the others may all be waiting for it.
    probe: Arc<tokio::sync::Mutex<Option<Connection>>>,
    _maintenance: Arc<AbortOnDropHandle<()>>,
}

impl Pool {
    /// Makes the pool. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the connection string can't be read.
    pub fn new(settings: &Settings) -> Result<Self, StoreError> {
        let pool = managed::Pool::builder(ConnectionManager::new(settings)?)
            .max_size(settings.max_connections.max(1))
            // The one used last has prepared most of what comes next.
            .queue_mode(QueueMode::Lifo)
            .runtime(deadpool::Runtime::Tokio1)
            .wait_timeout(Some(settings.command_timeout))
            .build()
            .map_err(|error| StoreError::Misconfigured(error.to_string()))?;
        let maintenance = tokio::spawn(maintain_idle(pool.clone(), settings.min_idle_connections));
        Ok(Self {
            pool,
            probe: Arc::default(),
            _maintenance: Arc::new(AbortOnDropHandle::new(maintenance)),
        })
    }

    /// Returns how many statements of one kind on one queue may run at once: a quarter of the connections, so that no kind
    /// takes them all, and few, as each has its cost on the server.
    pub(super) fn width(&self) -> usize {
        (self.pool.status().max_size / 4).clamp(1, 4)
    }

    /// Returns the server's name and port.
    pub(super) fn address(&self) -> String {
        self.pool.manager().server.get_addr()
    }

    /// Runs a statement; again, a little later, where the error's remedy is to. Ends, one way or the other, when the
    /// command time-out has passed.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[&dyn ToSql],
        again: RetrySafety,
    ) -> Result<Vec<Vec<Row>>, OperationFailure> {
        let settings = &self.pool.manager().settings;
        let start = Instant::now();
        let mut tries = 1;
        loop {
            let rest = || settings.command_timeout.saturating_sub(start.elapsed());
            let attempt = self.try_query(sql, parameters, tries);
            let failure = match timeout(rest(), attempt).await {
                Ok(Ok(results)) => return Ok(results),
                Ok(Err(failure)) => failure,
                Err(_) => OperationFailure::new(timed_out(settings.command_timeout), tries),
            };
            if failure.breaks_connection() {
                self.pool.manager().found_broken();
            }
            // The longer the more often it failed, and random: those who collided don't meet again.
            let share: f64 = rand::random_range(0.0..1.0);
            let pause = RETRY_DELAY.mul_f64(share) * 2_u32.pow(tries);
            if !failure.may_run_again(again) || tries >= MAX_TRIES || pause >= rest() {
                return Err(failure);
            }
            tracing::warn!(%failure, "an operation runs again");
            tokio::time::sleep(pause).await;
            tries += 1;
        }
    }

    async fn try_query(
        &self,
        sql: &str,
        parameters: &[&dyn ToSql],
        tries: u32,
    ) -> Result<Vec<Vec<Row>>, OperationFailure> {
        let taken = self.take().await;
        let mut connection = taken.map_err(|error| OperationFailure::new(error, tries))?;
        let outcome = connection.run_prepared(sql, parameters).await;
        outcome.map_err(|error| {
            let failure = OperationFailure::new(error, tries);
            if failure.breaks_connection() {
                drop(Object::take(connection));
            }
            failure
        })
    }

    /// Takes a connection for several statements.
    pub(super) async fn take(&self) -> Result<Object<ConnectionManager>, StoreError> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error,
            PoolError::Timeout(_) => {
                let busy = "every connection to the server is in use (store.max_connections)";
                StoreError::unavailable(busy)
            }
            other => StoreError::unavailable(other.to_string()),
        })
    }

    /// Runs a statement on a connection of its own, which no operation can hold up.
    pub(super) async fn probe(&self, sql: &str) -> Result<(), StoreError> {
        let mut kept = self.probe.lock().await;
        let connections = self.pool.manager();
        // Taken out: a future dropped halfway leaves none behind.
        let usable = kept.take().filter(|kept| !connections.is_old(kept));
        let mut connection = match usable {
            Some(connection) => connection,
            None => Connection::open(&connections.server, &connections.settings).await?,
        };
        connection.batch(sql).await?;
        *kept = Some(connection);
        Ok(())
    }
}

/// Closes old connections that nobody uses, and opens new ones while fewer are idle than wanted.
async fn maintain_idle(pool: managed::Pool<ConnectionManager>, min_idle: usize) {
    loop {
        pool.retain(|connection, _| !pool.manager().is_old(connection));
        let status = pool.status();
        let room = status.max_size.saturating_sub(status.size);
        let wanted = min_idle.saturating_sub(status.available).min(room);
        if wanted > 0 {
            open_more(&pool, status.available, wanted).await;
        }
        tokio::time::sleep(MAINTENANCE_INTERVAL).await;
    }
}

/// Opens connections: the idle ones are held for the moment in which the pool is asked for more. An error shows in the
/// operations.
async fn open_more(pool: &managed::Pool<ConnectionManager>, idle: usize, more: usize) {
    let held = join_all((0..idle).map(|_| pool.get())).await;
    let mut opening = join_all((0..more).map(|_| pool.get()));
    tokio::select! {
        biased;
        _ = &mut opening => return,
        () = std::future::ready(()) => drop(held),
    }
    opening.await;
}
