//! One connection: dialled, logged in, set up, and honest about whether its stream was read to the end.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use tiberius::error::Error;
use tiberius::{Client, Config, QueryItem, Row, ToSql};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};

use super::Settings;

/// What filtered indexes need of a session (Microsoft's CREATE INDEX, "Required SET options for filtered indexes").
const SESSION: &str = "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, \
    QUOTED_IDENTIFIER ON; SET NUMERIC_ROUNDABORT OFF;";
/// Ends whatever an earlier operation may have left.
const RESET: &str =
    "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;";
/// How long a connection may take to be made fit for use again.
const RESET_TIME: Duration = Duration::from_secs(2);
/// How often a login may be sent on to another server.
const ROUTES: usize = 3;

/// A connection.
pub(super) struct Connection {
    client: Client<Compat<TcpStream>>,
    born: Instant,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Every stream was read to the end.
    Clean,
    /// An error ended a batch; what it left is to be cleared.
    Disturbed,
    /// A stream was left in the middle: of no more use.
    Broken,
}

impl Connection {
    /// Dials, logs in and sets the session's options.
    pub(super) async fn open(settings: &Settings) -> Result<Self, Error> {
        let mut config = Config::from_ado_string(&settings.connection_string)?;
        config.application_name("lease-broker");
        config.handshake_timeout(Some(settings.handshake_timeout));
        config.command_timeout(Some(settings.command_timeout));
        let mut routes = 0;
        let client = loop {
            let stream = dial(&config, settings.connect_timeout).await?;
            let connect = Client::connect(config.clone(), stream.compat_write());
            match Box::pin(connect).await {
                Err(Error::Routing { host, port }) if routes < ROUTES => {
                    routes += 1;
                    config.host(host);
                    config.port(port);
                }
                outcome => break outcome?,
            }
        };
        let mut connection = Self {
            client,
            born: Instant::now(),
            state: State::Clean,
        };
        connection.batch(SESSION).await?;
        Ok(connection)
    }

    /// Returns how long ago it was opened.
    pub(super) fn age(&self) -> Duration {
        self.born.elapsed()
    }

    /// Makes it fit for the next user.
    ///
    /// # Errors
    /// Why it can't be used any more.
    pub(super) async fn reset(&mut self) -> Result<(), &'static str> {
        match self.state {
            State::Clean => Ok(()),
            State::Broken => Err("its stream was not read to the end"),
            State::Disturbed => match timeout(RESET_TIME, self.batch(RESET)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) | Err(_) => Err("it could not be reset"),
            },
        }
    }

    /// Runs a statement with parameters and reads all that it answers.
    pub(super) async fn query(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Vec<Row>>, Error> {
        // Until the stream has been read to the end; a future dropped before leaves it so.
        self.state = State::Broken;
        // The driver's futures are large: on the heap they don't weigh on every caller's.
        let answer = async { collect(self.client.query(sql, parameters).await?).await };
        let outcome = Box::pin(answer).await;
        self.state = state_after(&outcome);
        outcome
    }

    /// Runs a batch without parameters.
    pub(super) async fn batch(&mut self, sql: &str) -> Result<Vec<Vec<Row>>, Error> {
        self.state = State::Broken;
        let answer = async { collect(self.client.simple_query(sql).await?).await };
        let outcome = Box::pin(answer).await;
        self.state = state_after(&outcome);
        outcome
    }

    /// Runs a statement and returns how many rows it has changed.
    pub(super) async fn execute(&mut self, sql: &str) -> Result<u64, Error> {
        self.state = State::Broken;
        let outcome = Box::pin(self.client.execute(sql, &[])).await;
        self.state = state_after(&outcome);
        outcome.map(tiberius::ExecuteResult::total)
    }
}

/// An error that the server sent leaves only the rest of its own answer, which the reset reads.
fn state_after<T>(outcome: &Result<T, Error>) -> State {
    match outcome {
        Ok(_) => State::Clean,
        Err(Error::Server(_)) => State::Disturbed,
        Err(_) => State::Broken,
    }
}

/// Reads to the final DONE before anything is believed: rows reach the client even if their statement is rolled back.
async fn collect(mut stream: tiberius::QueryStream<'_>) -> Result<Vec<Vec<Row>>, Error> {
    let mut results: Vec<Vec<Row>> = Vec::new();
    let mut failed = None;
    while let Some(item) = stream.next().await {
        match item {
            Ok(QueryItem::Metadata(_)) => results.push(Vec::new()),
            Ok(QueryItem::Row(row)) => {
                if let Some(rows) = results.last_mut() {
                    rows.push(row);
                }
            }
            Err(error @ Error::Server(_)) => {
                failed.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    failed.map_or(Ok(results), Err)
}

/// Dials the server's addresses side by side, a moment apart, and takes the first that answers.
async fn dial(config: &Config, patience: Duration) -> Result<TcpStream, Error> {
    const STAGGER: Duration = Duration::from_millis(250);

    let address = config.get_addr();
    let dialled = async {
        let mut addresses = tokio::net::lookup_host(&address).await?;
        let mut dials = tokio::task::JoinSet::new();
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        loop {
            if let Some(next) = addresses.next() {
                dials.spawn(TcpStream::connect(next));
            } else if dials.is_empty() {
                return Err(last);
            }
            tokio::select! {
                Some(joined) = dials.join_next() => match joined {
                    Ok(Ok(stream)) => return Ok(stream),
                    Ok(Err(error)) => last = error,
                    Err(error) => last = std::io::Error::other(error),
                },
                () = tokio::time::sleep(STAGGER) => {}
            }
        }
    };
    let silent = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no TCP connection in time");
    let stream = timeout(patience, dialled).await;
    let stream = stream.unwrap_or_else(|_| Err(silent()))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
