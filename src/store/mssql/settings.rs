//! How to reach a server.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tiberius::Config;

use super::connection_string;
use crate::store::StoreError;

/// How to reach a server. Shown or logged, it keeps its secrets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// An ADO.NET connection string.
    pub connection_string: SecretString,
    /// A file with a Microsoft Entra access token, which replaces user and password; read for each connection.
    pub access_token_file: Option<PathBuf>,
    /// How long TCP may take to connect.
    pub connect_timeout: Duration,
    /// How long TLS and login may take.
    pub handshake_timeout: Duration,
    /// How long an operation may take, its retries included; the first after half of it without an answer.
    pub command_timeout: Duration,
    /// ConnectionManager at once.
    pub max_connections: usize,
    /// ConnectionManager kept open while nothing is to do.
    pub min_idle_connections: usize,
    /// How old a connection may get.
    pub max_connection_age: Duration,
}

impl Settings {
    /// Returns settings that fit most servers.
    pub fn new(connection_string: impl Into<SecretString>) -> Self {
        Self {
            connection_string: connection_string.into(),
            access_token_file: None,
            connect_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(10),
            command_timeout: Duration::from_secs(15),
            max_connections: 16,
            min_idle_connections: 0,
            max_connection_age: Duration::from_secs(1_800),
        }
    }

    /// Returns how long a statement may keep silent: after half of the time a second try has a chance.
    pub(super) fn try_timeout(&self) -> Duration {
        self.command_timeout / 2
    }

    /// Reads the connection string.
    pub(super) fn server(&self) -> Result<Config, StoreError> {
        let server = connection_string::parse(self.connection_string.expose_secret());
        server.map_err(|why| StoreError::Misconfigured(format!("store.connection_string: {why}")))
    }
}
