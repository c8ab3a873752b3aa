//! The connections of a broker: opened when needed, never handed on in the middle of a stream, replaced when they are old.

use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use tiberius::error::Error;
use tiberius::{Row, ToSql};

use super::Settings;
use super::connection::Connection;
use super::error::{Remedy, remedy};
use crate::store::StoreError;

/// How often an operation is tried in all.
const TRIES: u32 = 4;
/// How long an operation waits for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens and checks connections.
pub(super) struct Connections {
    settings: Settings,
}

impl Manager for Connections {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection, Error> {
        Connection::open(&self.settings).await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        // A share of the lifetime is random: connections opened together are not all replaced together.
        let share: f64 = rand::random_range(0.9..1.0);
        if connection.age() > self.settings.max_lifetime.mul_f64(share) {
            return Err(RecycleError::message("it is old"));
        }
        connection.reset().await.map_err(RecycleError::message)
    }
}

/// Connections to a database: a broker's, or those that several stores of one process share.
#[derive(Clone)]
pub struct Connected {
    pool: Pool<Connections>,
}

/// Whether an operation may be run again whose answer was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// If it was applied, running it again answers the same.
    Idempotent,
    /// It must not run twice.
    Once,
}

impl Connected {
    /// Makes the pool; connections are opened when they are needed.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the settings make no pool.
    pub fn new(settings: &Settings) -> Result<Self, StoreError> {
        let manager = Connections {
            settings: settings.clone(),
        };
        let pool = Pool::builder(manager)
            .max_size(settings.max_connections)
            .runtime(deadpool::Runtime::Tokio1)
            .wait_timeout(Some(PATIENCE))
            .build()
            .map_err(|error| StoreError::Misconfigured(error.to_string()))?;
        Ok(Self { pool })
    }

    /// Runs a statement; again, a little later, where the error's remedy is to.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[&dyn ToSql],
        again: Again,
    ) -> Result<Vec<Vec<Row>>, Error> {
        let mut tries = 1;
        loop {
            let mut connection = self.take().await?;
            let error = match connection.query(sql, parameters).await {
                Ok(results) => return Ok(results),
                Err(error) => error,
            };
            let retry = match remedy(&error) {
                Remedy::Retry => true,
                Remedy::Reconnect => {
                    drop(Object::take(connection));
                    again == Again::Idempotent
                }
                Remedy::Refuse | Remedy::Misconfigured | Remedy::Bug => false,
            };
            if !retry || tries >= TRIES {
                return Err(error);
            }
            tracing::debug!(%error, tries, "an operation runs again");
            let jitter: f64 = rand::random_range(0.5..1.5);
            let pause = Duration::from_millis(10) * 2_u32.pow(tries);
            tokio::time::sleep(pause.mul_f64(jitter)).await;
            tries += 1;
        }
    }

    /// Takes a connection for several statements.
    pub(super) async fn take(&self) -> Result<Object<Connections>, Error> {
        let io = |kind, message: String| Error::Io { kind, message };
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error,
            PoolError::Timeout(_) => io(
                std::io::ErrorKind::TimedOut,
                "every connection to the server is in use".to_owned(),
            ),
            other => io(std::io::ErrorKind::Other, other.to_string()),
        })
    }
}
