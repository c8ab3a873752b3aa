//! Settings of the SQL Server store.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tiberius::{AuthMethod, Config};

use super::{authority_file, connection_string};
use crate::{OutageCause, StoreError};

/// Maximum duration of a statement of a command that an operator runs, with its retry.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(2 * 3_600);

/// Maximum duration of a statement that changes the schema. An index over many rows takes long.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

/// Settings of the connections to a server. The `Debug` output hides the connection string.
#[derive(Clone, Debug)]
pub struct Settings {
    /// An ADO.NET connection string.
    pub connection_string: SecretString,
    /// The file that `connection_string` was read from. It is read again when no connection can be opened, so that a changed
    /// password needs no restart.
    pub connection_string_file: Option<PathBuf>,
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
    /// Maximum time for which a statement waits for a lock. `None`: four fifths of a try.
    pub lock_timeout: Option<Duration>,
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
            connection_string_file: None,
            access_token_file: None,
            connect_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(10),
            command_timeout: Duration::from_secs(15),
            lock_timeout: None,
            max_connections: 16,
            min_idle_connections: 0,
            max_connection_age: Duration::from_secs(1_800),
        }
    }

    /// Returns the settings of a connection that makes schema changes.
    pub(super) fn of_schema_changes(&self) -> Self {
        Self {
            command_timeout: SCHEMA_TIMEOUT,
            ..self.clone()
        }
    }

    /// Returns the maximum time without a reply from the server to one try: half of the command timeout, which leaves
    /// time for a second try.
    pub(super) fn try_timeout(&self) -> Duration {
        self.command_timeout / 2
    }

    /// Returns the maximum time for which a statement waits for a lock. The default is shorter than the driver's timeout, which
    /// would end the whole connection.
    pub(super) fn lock_timeout(&self) -> Duration {
        let of_try = || self.try_timeout().mul_f64(0.8);
        self.lock_timeout.unwrap_or_else(of_try)
    }

    /// Returns the settings for a command that an operator runs. It may count a large table, for which it has hours, but it
    /// waits for locks no longer than a broker does.
    #[must_use]
    pub fn for_operator(&self) -> Self {
        Self {
            command_timeout: OPERATOR_TIMEOUT,
            lock_timeout: Some(self.lock_timeout()),
            ..self.clone()
        }
    }

    /// Reads the connection string again, if it is in a file. `None`: it is the same as before, or cannot be read.
    pub(super) async fn read_again(&self, present: &SecretString) -> Option<SecretString> {
        let path = self.connection_string_file.as_ref()?;
        let text = match tokio::fs::read_to_string(path).await {
            Ok(text) => text,
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "cannot read the connection string again");
                return None;
            }
        };
        let text = text.trim();
        (text != present.expose_secret()).then(|| text.into())
    }

    /// Reads the access token. It is read for each connection, because another program renews it by writing the file. `None`: the
    /// settings name no file.
    pub(super) async fn access_token(&self) -> Result<Option<SecretString>, StoreError> {
        let Some(path) = &self.access_token_file else {
            return Ok(None);
        };
        let token = tokio::fs::read_to_string(path).await.map_err(|error| {
            let path = path.display();
            let reason = format!("cannot read the access token file {path}: {error}");
            StoreError::not_begun(OutageCause::Login, reason)
        })?;
        Ok(Some(token.trim().into()))
    }

    /// Returns the driver's configuration with an access token.
    pub(super) fn with_token(server: &Config, token: Option<&SecretString>) -> Config {
        let mut server = server.clone();
        if let Some(token) = token {
            server.authentication(AuthMethod::aad_token(token.expose_secret()));
        }
        server
    }

    /// Returns the database that a connection string names.
    pub(super) fn database_of(connection_string: &SecretString) -> Option<String> {
        connection_string::database(connection_string.expose_secret())
    }

    /// Parses the connection string into the driver's configuration.
    pub(super) fn server(&self) -> Result<Config, StoreError> {
        self.server_of(&self.connection_string)
    }

    /// As [`Self::server`], for another connection string.
    pub(super) fn server_of(&self, connection_string: &SecretString) -> Result<Config, StoreError> {
        let text = connection_string.expose_secret();
        let misconfigured = |problem| {
            StoreError::Misconfigured(match &self.connection_string_file {
                None => format!("store.connection_string: {problem}"),
                Some(file) => format!(
                    "store.connection_string_file: {}: {problem}",
                    file.display()
                ),
            })
        };
        let mut server = connection_string::parse(text).map_err(misconfigured)?;
        if let Some(file) = connection_string::authority(text) {
            authority_file::check(&file).map_err(misconfigured)?;
        }
        // SQL Server stores nvarchar unchecked. Half of a surrogate pair becomes U+FFFD. Without this option the driver would
        // refuse the whole answer, and the items of a claim would be leased to no worker.
        server.lossy_utf16_decoding(true);
        Ok(server)
    }
}
