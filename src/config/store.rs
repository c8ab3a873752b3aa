//! The section `store` of the configuration: the database and the connections to it.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::duration;
use super::error::InvalidSetting;
use super::range::{DAY, MILLISECOND, MINUTE, check_between, check_count, check_duration};

/// The database that holds the queues' tables, and the connections to it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The kind of database.
    pub kind: StoreKind,
    /// The database file, for `SQLite`.
    pub path: PathBuf,
    /// An ADO.NET connection string, for SQL Server. It is never logged. Empty: `connection_string_file` holds it.
    pub connection_string: SecretString,
    /// A file that contains the connection string. Empty: no file.
    pub connection_string_file: PathBuf,
    /// A file that contains an access token for the login. It is read again for each connection. Empty: no file.
    pub access_token_file: PathBuf,
    /// The time limit for a TCP connection to SQL Server. 100 ms to 60 s.
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
    /// The time limit for TLS and login together. 100 ms to 60 s.
    #[serde(with = "duration")]
    pub handshake_timeout: Duration,
    /// The time limit for an operation, including its retries. 100 ms to 60 s.
    #[serde(with = "duration")]
    pub command_timeout: Duration,
    /// The maximum number of connections. 1 to 1,000.
    pub max_connections: usize,
    /// The number of connections that stay open while the broker is idle. 0 to 1,000. `max_connections` limits it.
    pub min_idle_connections: usize,
    /// The age at which a connection is replaced. 100 ms to 1 day.
    #[serde(with = "duration")]
    pub max_connection_age: Duration,
}

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// An embedded database in one file on this host.
    Sqlite,
    /// A SQL Server database.
    Mssql,
}

impl StoreKind {
    /// Returns the name of the database system in OpenTelemetry's conventions.
    pub const fn system_name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Mssql => "microsoft.sql_server",
        }
    }

    /// Returns the kind's name, as the setting `store.kind` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Mssql => "mssql",
        }
    }
}

impl Store {
    /// Returns the absolute path of the database file. It touches no file. `None`: the database is on a server.
    pub fn absolute_path(&self) -> Option<PathBuf> {
        let is_file = self.kind == StoreKind::Sqlite;
        is_file.then(|| std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone()))
    }

    /// Returns whether there is a connection string, in the settings or in a file that exists.
    pub fn has_connection_string(&self) -> bool {
        let in_settings = !self.connection_string.expose_secret().is_empty();
        in_settings || self.connection_string_file.exists()
    }

    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        match self.kind {
            StoreKind::Sqlite => self.check_path()?,
            StoreKind::Mssql => self.check_connection_string()?,
        }
        check_count("store.max_connections", self.max_connections, 1_000)?;
        let idle = self.min_idle_connections;
        check_between("store.min_idle_connections", idle, 0, 1_000)?;
        for (key, value, max) in [
            ("store.connect_timeout", self.connect_timeout, MINUTE),
            ("store.handshake_timeout", self.handshake_timeout, MINUTE),
            ("store.command_timeout", self.command_timeout, MINUTE),
            ("store.max_connection_age", self.max_connection_age, DAY),
        ] {
            check_duration(key, value, 100 * MILLISECOND, max)?;
        }
        Ok(())
    }

    fn check_path(&self) -> Result<(), InvalidSetting> {
        let path = self.path.as_os_str().as_encoded_bytes();
        if path.is_empty() || path.contains(&0) {
            let reason = "needs the path of the database file, without a NUL character";
            return Err(InvalidSetting::new("store.path", reason));
        }
        Ok(())
    }

    fn check_connection_string(&self) -> Result<(), InvalidSetting> {
        let in_settings = !self.connection_string.expose_secret().is_empty();
        let in_file = !self.connection_string_file.as_os_str().is_empty();
        match (in_settings, in_file) {
            (true, false) | (false, true) => Ok(()),
            (false, false) => Err(InvalidSetting::new(
                "store.connection_string",
                "is required with kind = \"mssql\". It has ADO.NET form: \
                 server=HOST,1433;database=DB;user id=…;password=…. Put it into a file and set \
                 store.connection_string_file, or into the environment variable \
                 LEASE_BROKER_STORE__CONNECTION_STRING",
            )),
            (true, true) => Err(InvalidSetting::new(
                "store.connection_string_file",
                "store.connection_string is set too; set only one of them",
            )),
        }
    }
}
