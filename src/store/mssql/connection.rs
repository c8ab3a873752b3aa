//! One connection: set up when it is opened, and honest about whether its stream was read to the end.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use tiberius::error::Error;
use tiberius::{Config, QueryItem, Row, ToSql};
use tokio::time::timeout;

use super::Settings;
use super::connect::{Session, Socket, connect};
use super::prepared::{self, BatchKey, NO_SUCH_HANDLE, Prepared};
use super::server_info::{SERVER_INFO_SQL, ServerInfo};
use crate::store::StoreError;

/// What filtered indexes need of a session, and no transactions but those that a batch begins.
const SESSION_OPTIONS: &str = "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, \
    QUOTED_IDENTIFIER ON; SET NUMERIC_ROUNDABORT, IMPLICIT_TRANSACTIONS OFF;";
/// Ends whatever an earlier operation may have left.
const RESET: &str = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION; \
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET XACT_ABORT ON;";
/// How long a connection may take to be made fit for use again.
const RESET_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection.
pub(super) struct Connection {
    session: Session,
    socket: Socket,
    /// Sets the session's options.
    options: String,
    prepared: Prepared,
    pub(super) server_info: ServerInfo,
    opened_at: Instant,
    last_reply_at: Instant,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Every stream was read to the end.
    Clean,
    /// An error ended a batch; what it left is to be cleared.
    NeedsReset,
    /// A stream was left in the middle: of no more use.
    Broken,
}

impl Connection {
    /// Dials, logs in, sets the session's options and asks the server what it is.
    pub(super) async fn open(server: &Config, settings: &Settings) -> Result<Self, StoreError> {
        let (session, socket) = connect(server, settings).await?;
        // A wait for another's lock ends before the driver would give up the whole connection.
        let patience = settings.try_timeout().mul_f64(0.8).as_millis();
        let options = format!("{SESSION_OPTIONS} SET LOCK_TIMEOUT {patience};");
        let set_up = format!("{options} {};", SERVER_INFO_SQL);
        let mut connection = Self {
            session,
            socket,
            options,
            prepared: Prepared::default(),
            server_info: ServerInfo::default(),
            opened_at: Instant::now(),
            last_reply_at: Instant::now(),
            state: State::Clean,
        };
        let results = timeout(settings.handshake_timeout, connection.batch(&set_up)).await;
        let silent = || Error::Io {
            kind: std::io::ErrorKind::TimedOut,
            message: "the server does not answer after the login".to_owned(),
        };
        let results = results.unwrap_or_else(|_| Err(silent()))?;
        connection.server_info = ServerInfo::read(results.iter().flatten().next())?;
        Ok(connection)
    }

    /// Sets the session's options again, after batches that have options of their own.
    pub(super) async fn restore_options(&mut self) -> Result<(), Error> {
        let options = self.options.clone();
        self.batch(&options).await?;
        Ok(())
    }

    /// Returns how long ago it was opened.
    pub(super) fn age(&self) -> Duration {
        self.opened_at.elapsed()
    }

    /// Makes it fit for the next user, and makes sure that the server is still there if something has gone wrong anywhere
    /// since it answered last.
    ///
    /// # Errors
    /// Why it can't be used any more.
    pub(super) async fn reset(&mut self, trouble: Option<Instant>) -> Result<(), &'static str> {
        let suspect = trouble.is_some_and(|trouble| trouble >= self.last_reply_at);
        match self.state {
            State::Broken => Err("its stream was not read to the end"),
            _ if !self.socket.is_open_and_idle() => Err("the server has closed it"),
            State::Clean if !suspect => Ok(()),
            State::Clean | State::NeedsReset => {
                match timeout(RESET_TIMEOUT, self.batch(RESET)).await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(_)) | Err(_) => Err("it could not be reset"),
                }
            }
        }
    }

    /// Runs one of the broker's operations and reads its results. If it has parameters, it is prepared the first time that
    /// this connection runs it, in the same round trip.
    pub(super) async fn run_prepared(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Vec<Row>>, Error> {
        if parameters.is_empty() {
            return self
                .run(sql, parameters, ResultFilter::BrokerOnly)
                .await?
                .into_results();
        }
        let batch = BatchKey::new(sql, parameters);
        if let Some(handle) = self.prepared.handle(&batch) {
            let sql = prepared::execute(&handle.to_string(), parameters.len());
            let answer = self.run(&sql, parameters, ResultFilter::BrokerOnly).await;
            let outcome = answer.and_then(BatchResult::into_results);
            if matches!(&outcome, Err(Error::Server(token)) if token.code() == NO_SUCH_HANDLE) {
                self.prepared.forget();
            }
            return outcome;
        }
        let sql = prepared::prepare_and_execute(parameters.len(), self.prepared.evict_oldest());
        let own: [&dyn ToSql; 2] = [&batch.declarations, &batch.sql];
        let all = [parameters, &own].concat();
        let mut answer = self.run(&sql, &all, ResultFilter::BrokerOnly).await?;
        // The handle comes first, and is good even if the batch fails.
        if let Some(handle) = answer.take_handle() {
            self.prepared.keep(batch, handle);
        }
        answer.into_results()
    }

    /// Runs a statement with parameters and reads all that it answers.
    pub(super) async fn query(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Vec<Row>>, Error> {
        self.run(sql, parameters, ResultFilter::All)
            .await?
            .into_results()
    }

    async fn run(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
        wanted: ResultFilter,
    ) -> Result<BatchResult, Error> {
        // Until the stream has been read to the end; a future dropped before leaves it so.
        self.state = State::Broken;
        let answer = async { collect(self.session.query(sql, parameters).await?, wanted).await };
        // The driver's futures are large: on the heap they don't weigh on every caller's.
        let outcome = Box::pin(answer).await;
        self.update_state(&outcome);
        outcome
    }

    /// Runs a batch without parameters.
    pub(super) async fn batch(&mut self, sql: &str) -> Result<Vec<Vec<Row>>, Error> {
        self.state = State::Broken;
        let answer =
            async { collect(self.session.simple_query(sql).await?, ResultFilter::All).await };
        let outcome = Box::pin(answer).await;
        self.update_state(&outcome);
        outcome?.into_results()
    }

    /// An error that the server sent leaves only the rest of its own answer, which has been read.
    fn update_state(&mut self, outcome: &Result<BatchResult, Error>) {
        let failed = match outcome {
            Ok(answer) => answer.failed.as_ref(),
            Err(error) => Some(error),
        };
        self.state = match failed {
            None => State::Clean,
            // 20 and up end the connection.
            Some(Error::Server(token)) if token.class() < 20 => State::NeedsReset,
            Some(_) => State::Broken,
        };
        if self.state != State::Broken {
            self.last_reply_at = Instant::now();
        }
    }
}

/// What a batch has answered, read to its end.
struct BatchResult {
    results: Vec<Vec<Row>>,
    /// The first error that the server has sent.
    failed: Option<Error>,
}

impl BatchResult {
    /// Returns the results, none of which is to be believed if the batch failed.
    fn into_results(self) -> Result<Vec<Vec<Row>>, Error> {
        self.failed.map_or(Ok(self.results), Err)
    }

    /// Takes the handle of a batch that was prepared, and what came before it: Babelfish describes the result of a batch that is
    /// one query.
    fn take_handle(&mut self) -> Option<i32> {
        let handle = |rows: &Vec<Row>| rows.first()?.try_get("lb_h").ok().flatten();
        let (at, handle) = (0..)
            .zip(&self.results)
            .find_map(|(at, rows)| Some((at, handle(rows)?)))?;
        self.results.drain(..=at);
        Some(handle)
    }
}

/// Which of a batch's results are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultFilter {
    All,
    /// Those whose first column has a name of the broker's, `lb_…`: a trigger may answer rows of its own.
    BrokerOnly,
}

/// Reads to the final DONE before anything is believed: rows reach the client even if their statement is rolled back.
async fn collect(
    mut stream: tiberius::QueryStream<'_>,
    wanted: ResultFilter,
) -> Result<BatchResult, Error> {
    let mut results: Vec<Vec<Row>> = Vec::new();
    let mut failed = None;
    let mut is_wanted = false;
    while let Some(item) = stream.next().await {
        match item {
            Ok(QueryItem::Metadata(metadata)) => {
                let first = metadata.columns().first();
                let own = first.is_some_and(|column| column.name().starts_with("lb_"));
                is_wanted = own || wanted == ResultFilter::All;
                if is_wanted {
                    results.push(Vec::new());
                }
            }
            Ok(QueryItem::Row(row)) => {
                if let Some(rows) = results.last_mut().filter(|_| is_wanted) {
                    rows.push(row);
                }
            }
            Err(error @ Error::Server(_)) => {
                failed.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(BatchResult { results, failed })
}
