//! A connection to the server. It sets the session's options, runs batches, and records whether it may be used again.

use std::time::{Duration, Instant};

use tiberius::error::Error;
use tiberius::{Config, Row, ToSql};
use tokio::time::timeout;

use super::Settings;
use super::batch_reply::{BatchFailure, BatchReply, ResultFilter, with_mark};
use super::connect::{Session, Socket, connect};
use super::error::{in_own_words, timed_out, while_connecting};
use super::prepared::{self, BatchKey, NO_SUCH_HANDLE, Prepared};
use super::remedy::FATAL_CLASS;
use super::server_info::{SERVER_INFO_SQL, ServerInfo};
use crate::StoreError;

/// The language of the server's messages, whose English words the broker looks for. A login can have another one. Then the options
/// that filtered indexes need. Implicit transactions are off, so only a batch begins a transaction.
const SESSION_OPTIONS: &str = "SET LANGUAGE us_english; SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, \
    QUOTED_IDENTIFIER ON; SET NUMERIC_ROUNDABORT, IMPLICIT_TRANSACTIONS OFF; SET DEADLOCK_PRIORITY LOW;";
/// Ends a transaction that a failed operation left open, and restores the options that batches change.
const RESET: &str = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION; \
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET XACT_ABORT ON;";
/// Maximum duration of a reset.
const RESET_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection with its session's state.
pub(super) struct Connection {
    session: Session,
    socket: Socket,
    /// The batch that sets the session's options.
    options: String,
    /// The statement that sets the time for which the session waits for a lock.
    lock_timeout: String,
    /// The time within which the driver expects each part of an answer.
    try_timeout: Duration,
    prepared: Prepared,
    pub(super) server_info: ServerInfo,
    opened_at: Instant,
    last_reply_at: Instant,
    state: ConnectionState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// Every reply was read to its end.
    Clean,
    /// An error ended a batch. A transaction or an option may remain, so a reset is needed before the next use.
    NeedsReset,
    /// A reply was not read to its end. The next batch would read the rest of it, so the connection must be closed.
    Broken,
}

impl Connection {
    /// Connects, logs in, sets the session's options and reads the server's properties.
    pub(super) async fn open(server: &Config, settings: &Settings) -> Result<Self, StoreError> {
        let (session, socket) = connect(server, settings).await?;
        let lock_timeout = format!("SET LOCK_TIMEOUT {};", settings.lock_timeout().as_millis());
        // A plain batch: an option that is set inside `sp_executesql` ends with it.
        let options = format!("{SESSION_OPTIONS} {lock_timeout}");
        let set_up = format!("{options} {SERVER_INFO_SQL};");
        let mut connection = Self {
            session,
            socket,
            options,
            lock_timeout,
            try_timeout: settings.try_timeout(),
            prepared: Prepared::default(),
            server_info: ServerInfo::default(),
            opened_at: Instant::now(),
            last_reply_at: Instant::now(),
            state: ConnectionState::Clean,
        };
        let results = timeout(settings.handshake_timeout, connection.batch(&set_up)).await;
        let no_reply = || Error::Io {
            kind: std::io::ErrorKind::TimedOut,
            message: "the server does not answer after the login".to_owned(),
        };
        let results = results.unwrap_or_else(|_| Err(no_reply()));
        let results = results.map_err(|error| while_connecting(&error))?;
        connection.server_info = ServerInfo::read(results.iter().flatten().next())?;
        Ok(connection)
    }

    /// Sets the session's options again, after batches that changed them.
    pub(super) async fn restore_options(&mut self) -> Result<(), Error> {
        let options = self.options.clone();
        self.batch(&options).await?;
        Ok(())
    }

    /// Returns the time since the connection was opened.
    pub(super) fn age(&self) -> Duration {
        self.opened_at.elapsed()
    }

    /// Prepares the connection for its next user. `last_failure` is the time at which any connection of the pool was
    /// last found broken. If this connection has had no reply since then, the reset also proves that the server still
    /// answers.
    ///
    /// # Errors
    /// The reason why the connection must be closed.
    pub(super) async fn reset(
        &mut self,
        last_failure: Option<Instant>,
    ) -> Result<(), &'static str> {
        let is_suspect = last_failure.is_some_and(|failure| failure >= self.last_reply_at);
        match self.state {
            ConnectionState::Broken => Err("a reply was not read to its end"),
            _ if !self.socket.is_open_and_idle() => Err("the server has closed the connection"),
            ConnectionState::Clean if !is_suspect => Ok(()),
            ConnectionState::Clean | ConnectionState::NeedsReset => {
                let reset = format!("{RESET} {}", self.lock_timeout);
                match timeout(RESET_TIMEOUT, self.batch(&reset)).await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(_)) | Err(_) => Err("the reset failed"),
                }
            }
        }
    }

    /// Runs a batch of an operation and returns its results. The first run of a batch with parameters on this
    /// connection also prepares it, in the same round trip. Later runs use the handle. Each run ends with the mark of its commit.
    pub(super) async fn run_prepared(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Vec<Row>>, BatchFailure> {
        if parameters.is_empty() {
            return self.run_with_mark(sql, parameters).await?.into_results();
        }
        let key = BatchKey::new(sql, parameters);
        if let Some(handle) = self.prepared.handle(&key) {
            let sql = self.with_lock_timeout(prepared::execute(parameters.len()));
            let all_parameters = [parameters, &[&handle]].concat();
            let reply = self.run_with_mark(&sql, &all_parameters).await;
            let outcome = reply.map_err(BatchFailure::from);
            let outcome = outcome.and_then(BatchReply::into_results);
            if matches!(&outcome, Err(BatchFailure { error: Error::Server(token), .. }) if token.code() == NO_SUCH_HANDLE)
            {
                self.prepared.clear();
            }
            return outcome;
        }
        let evicted = self.prepared.evict_oldest();
        let sql = prepared::prepare_and_execute(parameters.len(), evicted.is_some());
        let sql = self.with_lock_timeout(sql);
        let prepare_parameters: [&dyn ToSql; 2] = [&key.declarations, &key.sql];
        let mut all_parameters = [parameters, &prepare_parameters].concat();
        all_parameters.extend(evicted.as_ref().map(|handle| -> &dyn ToSql { handle }));
        let mut reply = self.run_with_mark(&sql, &all_parameters).await?;
        // The handle is valid even if the batch itself fails.
        if let Some(handle) = reply.take_handle() {
            self.prepared.insert(key, handle);
        }
        reply.into_results()
    }

    /// Returns the call of a prepared batch, after which the session waits for locks as long as before. SQL Server restores an
    /// option that a batch has set inside `sp_executesql`. Babelfish keeps it.
    fn with_lock_timeout(&self, call: String) -> String {
        if self.server_info.babelfish {
            format!("{call} {}", self.lock_timeout)
        } else {
            call
        }
    }

    /// Runs a statement with parameters, without preparing it, and returns all its results.
    pub(super) async fn query(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Vec<Row>>, Error> {
        let reply = self.run(sql, parameters, ResultFilter::All).await?;
        Ok(reply.into_results()?)
    }

    async fn run_with_mark(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<BatchReply, Error> {
        self.run(&with_mark(sql), parameters, ResultFilter::OfOperation)
            .await
    }

    async fn run(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
        filter: ResultFilter,
    ) -> Result<BatchReply, Error> {
        // The caller may drop this future before the reply was read to its end. The state then stays `Broken`.
        self.state = ConnectionState::Broken;
        let result =
            async { BatchReply::read(self.session.query(sql, parameters).await?, filter).await };
        // The driver's futures are large. On the heap they do not enlarge the futures of all callers.
        let outcome = Box::pin(result).await;
        self.update_state(outcome)
    }

    /// Runs a batch without parameters and returns all its results.
    pub(super) async fn batch(&mut self, sql: &str) -> Result<Vec<Vec<Row>>, Error> {
        self.state = ConnectionState::Broken;
        let result = async {
            BatchReply::read(self.session.simple_query(sql).await?, ResultFilter::All).await
        };
        let outcome = Box::pin(result).await;
        Ok(self.update_state(outcome)?.into_results()?)
    }

    /// Notes whether the connection may be used again. Returns the outcome, with the broker's own words for a timeout.
    fn update_state(&mut self, outcome: Result<BatchReply, Error>) -> Result<BatchReply, Error> {
        let error = match &outcome {
            Ok(reply) => reply.first_error.as_ref(),
            Err(error) => Some(error),
        };
        self.state = match error {
            None => ConnectionState::Clean,
            // The server sent the error in its reply, and the reply was read to its end. An error of class 20 or higher
            // ends the connection.
            Some(Error::Server(token)) if token.class() < FATAL_CLASS => {
                ConnectionState::NeedsReset
            }
            Some(_) => ConnectionState::Broken,
        };
        if self.state != ConnectionState::Broken {
            self.last_reply_at = Instant::now();
        }
        outcome.map_err(|error| in_own_words(error, || timed_out(self.try_timeout)))
    }
}
