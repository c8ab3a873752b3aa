//! Settings of the SQL Server store.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tiberius::Config;

use super::connection_string;
use crate::StoreError;

/// Settings of the connections to a server. The `Debug` output hides the connection string.
#[derive(Clone, Debug)]
pub struct Settings {
    /// An ADO.NET connection string.
    pub connection_string: SecretString,
    /// A file with a Microsoft Entra access token, which replaces user and password. It is read for each new
    /// connection.
    pub access_token_file: Option<PathBuf>,
    /// Maximum duration of a TCP connect.
    pub connect_timeout: Duration,
    /// Maximum duration of TLS handshake and login.
    pub handshake_timeout: Duration,
    /// Maximum duration of an operation, including its retries. A try that gets no reply within half of this time is
    /// retried.
    pub command_timeout: Duration,
    /// Maximum number of connections.
    pub max_connections: usize,
    /// Number of idle connections that are kept open.
    pub min_idle_connections: usize,
    /// Maximum age of a connection. Older ones are replaced.
    pub max_connection_age: Duration,
}

impl Settings {
    /// Returns the default settings for a connection string.
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

    /// Returns the maximum time without a reply from the server to one try: half of the command timeout, which leaves
    /// time for a second try.
    pub(super) fn try_timeout(&self) -> Duration {
        self.command_timeout / 2
    }

    /// Returns the database that the connection string names.
    pub(super) fn database(&self) -> Option<String> {
        connection_string::database(self.connection_string.expose_secret())
    }

    /// Parses the connection string into the driver's configuration.
    pub(super) fn server(&self) -> Result<Config, StoreError> {
        let server = connection_string::parse(self.connection_string.expose_secret());
        let mut server = server.map_err(|problem| {
            StoreError::Misconfigured(format!("store.connection_string: {problem}"))
        })?;
        // SQL Server stores nvarchar unchecked. Half of a surrogate pair becomes U+FFFD. Without this option the driver would
        // refuse the whole answer, and the items of a claim would be leased to no worker.
        server.lossy_utf16_decoding(true);
        Ok(server)
    }
}
