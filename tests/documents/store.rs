//! The database that a reader has: which of a document's blocks make its tables, and what the reader says of it to the
//! commands.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::harness::mssql::program_database::ProgramDatabase;

/// Patience with a server that all tests share: how fast it is is not what they are about.
const LONG_TIMEOUTS: [(&str, &str); 3] = [
    ("LEASE_BROKER_STORE__CONNECT_TIMEOUT", "60s"),
    ("LEASE_BROKER_STORE__HANDSHAKE_TIMEOUT", "60s"),
    ("LEASE_BROKER_STORE__COMMAND_TIMEOUT", "60s"),
];

pub(crate) enum Store {
    /// The file that the configuration names.
    Sqlite,
    SqlServer {
        database: ProgramDatabase,
        /// The environment that the document tells the reader to set.
        exports: Vec<(String, String)>,
    },
}

impl Store {
    /// Makes a database for a reader of `document`.
    pub(crate) fn sql_server(document: &str) -> Self {
        let exports = document
            .lines()
            .filter_map(|line| line.strip_prefix("export ")?.split_once('='));
        let exports: Vec<_> = exports
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        assert!(!exports.is_empty(), "how to name the server");
        Self::SqlServer {
            database: ProgramDatabase::create(),
            exports,
        }
    }

    /// The kind of the blocks that make its tables.
    pub(crate) fn language(&self) -> &'static str {
        match self {
            Self::Sqlite => "sql",
            Self::SqlServer { .. } => "tsql",
        }
    }

    /// Makes the tables, in `folder` if the database is a file, and saves there what the environment names.
    pub(crate) fn make(&self, tables: &str, folder: &Path, configuration: &str) {
        match self {
            Self::Sqlite => {
                let connection = rusqlite::Connection::open(folder.join(file(configuration)));
                let made = connection.expect("a database").execute_batch(tables);
                made.expect("the tables are made");
            }
            Self::SqlServer { database, exports } => {
                database.run(tables);
                let named = exports.iter().find(|(name, _)| name.ends_with("_FILE"));
                let (_, name) = named.expect("a file for the connection string");
                let saved = std::fs::write(folder.join(name), database.connection_string());
                saved.expect("the connection string is saved");
            }
        }
    }

    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        match self {
            Self::Sqlite => Vec::new(),
            Self::SqlServer { exports, .. } => {
                let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                exports
                    .iter()
                    .cloned()
                    .chain(LONG_TIMEOUTS.map(own))
                    .collect()
            }
        }
    }

    /// Returns whether a command was told to come back: a server under load may take longer than a broker waits. Every
    /// command of the recipes may be typed again.
    pub(crate) fn is_unavailable(&self, printed: &[String]) -> bool {
        let away = |line: &String| {
            line.contains("(STORE_UNAVAILABLE)")
                || line.contains("the service did not answer in time")
        };
        matches!(self, Self::SqlServer { .. }) && printed.iter().any(away)
    }

    /// Puts the configuration's file in the place of the server in what `serve` announces.
    pub(crate) fn as_shown(&self, printed: &str, configuration: &str) -> String {
        static SERVER: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"queues in (Babelfish|SQL Server) [0-9.]+ at \S+: ").expect("a pattern")
        });
        match self {
            Self::Sqlite => printed.to_owned(),
            Self::SqlServer { .. } => {
                let place = format!("queues in {}: ", file(configuration));
                SERVER.replace_all(printed, place).into_owned()
            }
        }
    }
}

/// Returns the file that a configuration names.
fn file(configuration: &str) -> &str {
    let (_, path) = configuration
        .split_once("path = \"")
        .expect("the store's path");
    path.split('"').next().expect("a path")
}
