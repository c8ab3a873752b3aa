//! The store's section of the configuration.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::{Problem, at_most, between, duration};

/// Where the leases are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The kind of database.
    pub kind: StoreKind,
    /// The file of a `SQLite` store.
    pub path: PathBuf,
    /// How to reach a SQL Server, as ADO.NET writes it; never shown. Empty: it is in `connection_string_file`.
    pub connection_string: SecretString,
    /// A file that holds the connection string; empty: none.
    pub connection_string_file: PathBuf,
    /// A file that holds an access token to log in with, read for each connection; empty: none.
    pub access_token_file: PathBuf,
    /// How long TCP may take to connect.
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
    /// How long TLS and login may take.
    #[serde(with = "duration")]
    pub handshake_timeout: Duration,
    /// How long an operation may take, its retries included.
    #[serde(with = "duration")]
    pub command_timeout: Duration,
    /// Connections at once.
    pub max_connections: usize,
    /// Connections kept open while nothing is to do, if as many may be.
    pub min_idle_connections: usize,
    /// How old a connection may get.
    #[serde(with = "duration")]
    pub max_connection_age: Duration,
}

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// One file on this host.
    Sqlite,
    /// A SQL Server database.
    Mssql,
}

impl Store {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let given = [
            !self.connection_string.expose_secret().is_empty(),
            !self.connection_string_file.as_os_str().is_empty(),
        ];
        match (self.kind, given) {
            (StoreKind::Sqlite, _) | (StoreKind::Mssql, [true, false] | [false, true]) => {}
            (StoreKind::Mssql, [false, false]) => {
                return Err(Problem::new(
                    "store.connection_string",
                    "a SQL Server store needs one, as ADO.NET writes it: server=HOST,1433;database=DB;user id=…;password=…; \
                     better than in this file it is kept in the one that store.connection_string_file names, or in the \
                     environment variable LEASE_BROKER_STORE__CONNECTION_STRING",
                ));
            }
            (StoreKind::Mssql, [true, true]) => {
                return Err(Problem::new(
                    "store.connection_string_file",
                    "store.connection_string is set too: only one of them may be",
                ));
            }
        }
        at_most("store.max_connections", self.max_connections, 1_000)?;
        let (least, minute) = (Duration::from_millis(100), Duration::from_secs(60));
        let day = Duration::from_secs(86_400);
        for (key, value, most) in [
            ("store.connect_timeout", self.connect_timeout, minute),
            ("store.handshake_timeout", self.handshake_timeout, minute),
            ("store.command_timeout", self.command_timeout, minute),
            ("store.max_connection_age", self.max_connection_age, day),
        ] {
            between(key, value, least, most)?;
        }
        Ok(())
    }
}
