//! Pool of connections, and the retry loop of operations. The pool opens connections on demand, replaces old ones, and
//! never hands out a connection whose last reply was not read to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use deadpool::managed::{
    self, Manager, Metrics, Object, PoolError, QueueMode, RecycleError, RecycleResult,
};
use futures_util::future::join_all;
use parking_lot::Mutex;
use secrecy::SecretString;
use tiberius::{Config, Row, ToSql};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::Settings;
use super::connection::Connection;
use super::epoch::LatestMoment;
use super::error::{
    OperationFailure, RetrySafety, at_start, breaks_connection, is_refused_for_a_moment, timed_out,
    while_connecting,
};
use super::logins::{Credentials, Logins};
use crate::withdrawal::{Beginning, Withdrawals};
use crate::{Database, OutageCause, PoolStatus, RetryReason, StoreError};

/// Maximum number of connections that are being opened at the same time. A server that has just started would otherwise
/// be overloaded by logins.
const MAX_CONCURRENT_CONNECTS: usize = 4;
/// Maximum number of tries of an operation, the first one included.
const MAX_TRIES: u32 = 5;
/// The delay before the first retry is random, up to twice this duration. Each further retry doubles the limit.
const RETRY_DELAY: Duration = Duration::from_millis(10);
/// The delay before the first retry of a login at the start of a store. Each further retry doubles it.
const START_DELAY: Duration = Duration::from_millis(75);
/// Interval of the maintenance of idle connections.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(15);

/// A connection string, and what it says.
struct Server {
    connection_string: SecretString,
    config: Config,
}

/// Opens connections for the pool and checks them before each use.
pub(super) struct ConnectionManager {
    server: Mutex<Arc<Server>>,
    settings: Settings,
    connect_permits: Semaphore,
    logins: Logins,
    latest_moment: LatestMoment,
    /// The time at which a connection was last found broken.
    last_failure: Mutex<Option<Instant>>,
}

impl ConnectionManager {
    fn new(settings: &Settings) -> Result<Self, StoreError> {
        Ok(Self {
            server: Mutex::new(Arc::new(Server {
                connection_string: settings.connection_string.clone(),
                config: settings.server()?,
            })),
            settings: settings.clone(),
            latest_moment: LatestMoment::default(),
            connect_permits: Semaphore::new(MAX_CONCURRENT_CONNECTS),
            logins: Logins::default(),
            last_failure: Mutex::new(None),
        })
    }

    fn server(&self) -> Arc<Server> {
        let server = self.server.lock();
        server.clone()
    }

    /// Opens a connection. While the database that it leads to has gone back in time, this fails.
    async fn open(&self, settings: &Settings) -> Result<Connection, StoreError> {
        // The future is large. On the heap it does not enlarge the futures of all callers.
        let opened = Box::pin(self.connect_and_check(settings)).await;
        opened.map_err(|error| self.logins.failure(error))
    }

    async fn connect_and_check(&self, settings: &Settings) -> Result<Connection, StoreError> {
        let mut connection = self.connect(settings).await?;
        let check = self.latest_moment.check(&mut connection);
        let checked = timeout(self.settings.handshake_timeout, check).await;
        checked.unwrap_or_else(|_| {
            Err(StoreError::not_begun(
                OutageCause::NoAnswer,
                "the server does not answer after the login",
            ))
        })?;
        Ok(connection)
    }

    /// Connects. If that fails, reads the file of the connection string again. If it has changed, for example because the
    /// password has, connects with the new one.
    async fn connect(&self, settings: &Settings) -> Result<Connection, StoreError> {
        let server = self.server();
        let failure = match self.log_in(&server, settings).await {
            Ok(connection) => return Ok(connection),
            Err(failure) => failure,
        };
        let again = settings.read_again(&server.connection_string).await;
        let Some(connection_string) = again else {
            return Err(failure);
        };
        let config = settings.server_of(&connection_string)?;
        let changed = Server {
            connection_string,
            config,
        };
        let connection = self.log_in(&changed, settings).await?;
        tracing::info!("connected with the changed connection string");
        *self.server.lock() = Arc::new(changed);
        Ok(connection)
    }

    /// Connects and logs in, unless the server has refused the same credentials shortly before.
    async fn log_in(&self, server: &Server, settings: &Settings) -> Result<Connection, StoreError> {
        let token = settings.access_token().await?;
        let credentials = Credentials::new(&server.connection_string, token.as_ref());
        let start = self.logins.begin(credentials)?;
        let config = Settings::with_token(&server.config, token.as_ref());
        let opened = Connection::open(&config, settings).await;
        self.logins.end(credentials, start, opened.as_ref().err());
        opened
    }

    /// Records that a connection is broken. Each other connection is then checked before its next use.
    fn record_failure(&self) {
        let mut last_failure = self.last_failure.lock();
        *last_failure = Some(Instant::now());
    }

    /// Returns whether a connection must be replaced because of its age. The limit is a random 80 to 100 % of the
    /// configured age, so connections that were opened together are not all replaced together.
    fn is_old(&self, connection: &Connection) -> bool {
        let share: f64 = rand::random_range(0.8..1.0);
        connection.age() > self.settings.max_connection_age.mul_f64(share)
    }

    /// Checks a connection before its next use.
    ///
    /// # Errors
    /// The reason why it must be closed.
    async fn check(
        &self,
        connection: &mut Connection,
        last_failure: Option<Instant>,
    ) -> Result<(), &'static str> {
        if self.latest_moment.went_back() {
            return Err("the database went back in time");
        }
        if self.is_old(connection) {
            return Err("the connection is too old");
        }
        connection.reset(last_failure).await
    }
}

impl Manager for ConnectionManager {
    type Type = Connection;
    type Error = StoreError;

    async fn create(&self) -> Result<Connection, StoreError> {
        let _permit = self.connect_permits.acquire().await;
        self.open(&self.settings).await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<StoreError> {
        let last_failure = *self.last_failure.lock();
        let checked = self.check(connection, last_failure).await;
        checked.map_err(RecycleError::message)
    }
}

/// The operations that had trouble with their connections.
#[derive(Default)]
struct Counters {
    timeouts: AtomicU64,
    /// By [`RetryReason`].
    retries: [AtomicU64; RetryReason::ALL.len()],
}

/// A pool of connections to one database. Several stores of one process can share it.
#[derive(Clone)]
pub struct Pool {
    connections: managed::Pool<ConnectionManager>,
    /// The connection of the health check. It is not part of the pool, so that operations which wait for the server
    /// cannot block the check.
    probe: Arc<tokio::sync::Mutex<Option<Connection>>>,
    counters: Arc<Counters>,
    withdrawals: Withdrawals,
    /// The runtime on which the pool was created. Operations run there: a connection that another one opened would end with that one.
    pub(super) runtime: Handle,
    _maintenance: Arc<AbortOnDropHandle<()>>,
}

impl Pool {
    /// Creates the pool without connecting. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the connection string cannot be parsed.
    pub fn new(settings: &Settings) -> Result<Self, StoreError> {
        let pool = managed::Pool::builder(ConnectionManager::new(settings)?)
            .max_size(settings.max_connections.max(1))
            // The connection that was used last has most of the common batches prepared.
            .queue_mode(QueueMode::Lifo)
            .runtime(deadpool::Runtime::Tokio1)
            .wait_timeout(Some(settings.command_timeout))
            .build()
            .map_err(|error| StoreError::Misconfigured(error.to_string()))?;
        let maintenance = tokio::spawn(maintain_idle(pool.clone(), settings.min_idle_connections));
        Ok(Self {
            connections: pool,
            probe: Arc::default(),
            counters: Arc::default(),
            withdrawals: Withdrawals::default(),
            runtime: Handle::current(),
            _maintenance: Arc::new(AbortOnDropHandle::new(maintenance)),
        })
    }

    /// Returns how many statements of one kind on one queue may run at the same time: a quarter of the connections,
    /// from 1 to 4. One kind of statement can then never take all connections. The number is small because each
    /// concurrent statement costs the server.
    pub(super) fn max_concurrent_operations(&self) -> usize {
        (self.connections.status().max_size / 4).clamp(1, 4)
    }

    /// Returns the present state of the connections.
    pub(super) fn status(&self) -> PoolStatus {
        let pool = self.connections.status();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PoolStatus {
            idle: pool.available,
            used: pool.size.saturating_sub(pool.available),
            max: pool.max_size,
            waiting: pool.waiting,
            timeouts: read(&self.counters.timeouts),
            retries: self.counters.retries.each_ref().map(read),
        }
    }

    /// Returns the latest moment of the database that this process has seen.
    pub(super) fn latest_moment(&self) -> &LatestMoment {
        &self.connections.manager().latest_moment
    }

    /// Returns the server's name and port.
    pub(super) fn address(&self) -> String {
        self.connections.manager().server().config.get_addr()
    }

    /// Returns the names of the server and the database.
    pub(super) fn database(&self) -> Database {
        let address = self.address();
        let (host, port) = address.rsplit_once(':').unwrap_or((&address, ""));
        Database {
            namespace: Settings::database_of(
                &self.connections.manager().server().connection_string,
            ),
            address: Some(host.to_owned()),
            port: port.parse().ok(),
        }
    }

    /// Runs a batch of an operation, and retries it if the error and `retry_safety` allow that. Returns at the latest
    /// when the command timeout has passed.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[&dyn ToSql],
        retry_safety: RetrySafety,
    ) -> Result<Vec<Vec<Row>>, OperationFailure> {
        self.tries().query(sql, parameters, retry_safety).await
    }

    /// Starts an operation that may need several tries. Its command timeout begins now.
    pub(super) fn tries(&self) -> Tries<'_> {
        self.tries_within(None)
    }

    /// Does the same as [`Self::tries`], for an operation that may take less time than the command timeout. `None`: it may take that.
    pub(super) fn tries_within(&self, limit: Option<Duration>) -> Tries<'_> {
        let command_timeout = self.connections.manager().settings.command_timeout;
        Tries {
            pool: self,
            start: Instant::now(),
            limit: limit.map_or(command_timeout, |limit| limit.min(command_timeout)),
            count: 0,
            waits_again_for_locks: true,
            may_have_been_applied: false,
            waited_for_lock: false,
        }
    }

    async fn try_query(
        &self,
        sql: &str,
        parameters: &[&dyn ToSql],
        tries: u32,
        was_sent: &mut bool,
    ) -> Result<Vec<Vec<Row>>, OperationFailure> {
        let taken = self.take().await;
        let mut connection = taken.map_err(|error| OperationFailure::new(error, tries))?;
        *was_sent = true;
        let outcome = connection.run_prepared(sql, parameters).await;
        outcome.map_err(|failure| {
            let failure = OperationFailure::of_batch(failure, tries, sql);
            if failure.breaks_connection() {
                drop(Object::take(connection));
            }
            failure
        })
    }

    /// Fails the operations that wait for a connection.
    pub(super) fn withdraw_waiting(&self) {
        self.withdrawals.withdraw_waiting();
    }

    /// Takes a connection from the pool, to run several statements on it.
    pub(super) async fn take(&self) -> Result<Object<ConnectionManager>, StoreError> {
        let taken = tokio::select! {
            biased;
            taken = self.connections.get() => taken,
            withdrawn = self.withdrawals.next(&Beginning::default()) => return Err(withdrawn),
        };
        taken.map_err(|error| match error {
            PoolError::Backend(error) => error,
            PoolError::Timeout(_) => {
                self.counters.timeouts.fetch_add(1, Ordering::Relaxed);
                StoreError::not_begun(
                    OutageCause::Busy,
                    "every connection to the server is in use; raise store.max_connections",
                )
            }
            other => StoreError::not_begun(OutageCause::Other, other.to_string()),
        })
    }

    /// Takes the first connection of a store. A server that starts together with the broker refuses logins for a moment,
    /// so a refused login is retried for about a second.
    ///
    /// # Errors
    /// As for [`Self::take`]. A database that is still missing after the last try is [`StoreError::Misconfigured`].
    pub(super) async fn take_first(&self) -> Result<Object<ConnectionManager>, StoreError> {
        let mut delay = START_DELAY;
        for _ in 1..MAX_TRIES {
            match self.take().await {
                Err(StoreError::Unavailable(outage)) if is_refused_for_a_moment(&outage) => {
                    tracing::warn!(%outage, "retrying login");
                    tokio::time::sleep(delay).await;
                    delay *= 2;
                }
                outcome => return outcome,
            }
        }
        self.take().await.map_err(at_start)
    }

    /// Opens a connection on which a broker waits for others that prepare the database, and plans its schema changes. A plan can read a
    /// whole table.
    pub(super) async fn open_for_preparation(&self) -> Result<Connection, StoreError> {
        let manager = self.connections.manager();
        manager.open(&manager.settings.for_operator()).await
    }

    /// Opens a connection for schema changes. An index over many rows takes longer than any operation, and the steps change options of
    /// the session.
    pub(super) async fn open_for_schema(&self) -> Result<Connection, StoreError> {
        let manager = self.connections.manager();
        manager.open(&manager.settings.of_schema_changes()).await
    }

    /// Prepares a store. Reading the catalogue can meet a change of another session, which a second reading does not, so the
    /// preparation is retried like an operation.
    pub(super) async fn start<T>(
        &self,
        prepare: impl AsyncFn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut delay = START_DELAY;
        for _ in 1..MAX_TRIES {
            match prepare().await {
                Err(StoreError::Unavailable(outage))
                    if outage.cause == OutageCause::Busy && outage.number.is_some() =>
                {
                    tracing::warn!(%outage, "retrying the start of the store");
                    tokio::time::sleep(delay).await;
                    delay *= 2;
                }
                outcome => return outcome,
            }
        }
        prepare().await
    }

    /// Runs a statement on the connection of the health check. If that connection has ended, which says nothing about the server, the
    /// statement runs on a new one. After a refused login it does too if no other connection is left, because all operations then need
    /// new connections.
    pub(super) async fn probe(&self, sql: &str) -> Result<(), StoreError> {
        let mut kept = self.probe.lock().await;
        let manager = self.connections.manager();
        // The connection is put back only after a complete reply. If the caller drops this future earlier, the
        // connection closes.
        let can_serve = !manager.logins.is_refused() || self.connections.status().size > 0;
        let kept_before = kept.take().filter(|_| can_serve);
        // The connection was idle for long, and no operation has noticed its end.
        let suspect_since = Some(Instant::now());
        if let Some(mut connection) = kept_before
            && manager.check(&mut connection, suspect_since).await.is_ok()
        {
            match connection.batch(sql).await {
                Err(error) if breaks_connection(&error) => {}
                outcome => {
                    outcome?;
                    *kept = Some(connection);
                    return Ok(());
                }
            }
        }
        let mut connection = manager.open(&manager.settings).await?;
        connection.batch(sql).await?;
        *kept = Some(connection);
        Ok(())
    }
}

/// The tries of one operation.
pub(super) struct Tries<'a> {
    pool: &'a Pool,
    start: Instant,
    /// The maximum duration of all tries together.
    limit: Duration,
    count: u32,
    /// Whether a batch is run again that has waited for a lock as long as one try may.
    waits_again_for_locks: bool,
    may_have_been_applied: bool,
    waited_for_lock: bool,
}

impl Tries<'_> {
    /// Ends the operation when one try has waited for a lock as long as it may.
    pub(super) fn with_one_lock_wait(mut self) -> Self {
        self.waits_again_for_locks = false;
        self
    }

    /// Runs a batch, and retries it as [`Pool::query`] does.
    pub(super) async fn query(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
        retry_safety: RetrySafety,
    ) -> Result<Vec<Vec<Row>>, OperationFailure> {
        loop {
            let failure = match self.run(sql, parameters).await {
                Ok(results) => return Ok(results),
                Err(failure) => failure,
            };
            let gives_up = !self.waits_again_for_locks && failure.is_lock_timeout();
            if gives_up
                || !failure.may_run_again(retry_safety)
                || !self.wait_for_next(&failure).await
            {
                return Err(failure);
            }
        }
    }

    /// Returns whether the server can have applied a batch of an earlier try, because the connection broke before its answer
    /// arrived.
    pub(super) fn may_have_been_applied(&self) -> bool {
        self.may_have_been_applied
    }

    /// Runs a batch once.
    pub(super) async fn run(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Vec<Row>>, OperationFailure> {
        self.count += 1;
        let mut was_sent = false;
        let outcome = self
            .pool
            .try_query(sql, parameters, self.count, &mut was_sent);
        let mut failure = match timeout(self.remaining(), outcome).await {
            Ok(Ok(results)) => return Ok(results),
            Ok(Err(failure)) => failure,
            Err(_) => {
                let error = timed_out(self.limit);
                if was_sent {
                    OperationFailure::new(error, self.count)
                } else {
                    OperationFailure::new(while_connecting(&error), self.count)
                }
            }
        };
        if self.may_have_been_applied {
            failure.after_lost_answer();
        }
        if self.waited_for_lock {
            failure.after_lock_timeout();
        }
        self.waited_for_lock |= failure.is_lock_timeout();
        self.may_have_been_applied |= failure.was_sent() && failure.breaks_connection();
        if failure.is_of_server() {
            self.pool.connections.manager().record_failure();
        }
        Err(failure)
    }

    /// Waits before the next try. Returns false, without a wait, if no try or no time is left.
    pub(super) async fn wait_for_next(&self, failure: &OperationFailure) -> bool {
        // Random, so that two operations that collided do not collide again. Longer after each try.
        let share: f64 = rand::random_range(0.0..1.0);
        let delay = RETRY_DELAY.mul_f64(share) * 2_u32.pow(self.count);
        if self.count >= MAX_TRIES || delay >= self.remaining() {
            return false;
        }
        let retries = &self.pool.counters.retries[failure.retry_reason() as usize];
        retries.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%failure, "retrying operation");
        tokio::time::sleep(delay).await;
        true
    }

    fn remaining(&self) -> Duration {
        self.limit.saturating_sub(self.start.elapsed())
    }
}

/// Closes idle connections that are too old, and opens new ones while fewer than `min_idle` are idle. Runs until it is
/// aborted.
async fn maintain_idle(pool: managed::Pool<ConnectionManager>, min_idle: usize) {
    loop {
        pool.retain(|connection, _| !pool.manager().is_old(connection));
        let status = pool.status();
        let room = status.max_size.saturating_sub(status.size);
        let missing = min_idle.saturating_sub(status.available).min(room);
        if missing > 0 {
            open_connections(&pool, status.available, missing).await;
        }
        tokio::time::sleep(MAINTENANCE_INTERVAL).await;
    }
}

/// Opens `count` connections. The pool opens a connection only if none is idle. This function therefore holds the idle
/// ones until the pool has received all requests for new ones. Errors are ignored: operations will meet and report
/// them.
async fn open_connections(pool: &managed::Pool<ConnectionManager>, idle: usize, count: usize) {
    let held = join_all((0..idle).map(|_| pool.get())).await;
    let mut opening = join_all((0..count).map(|_| pool.get()));
    tokio::select! {
        biased;
        _ = &mut opening => return,
        () = std::future::ready(()) => drop(held),
    }
    opening.await;
}
