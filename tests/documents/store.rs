//! The database of a reader: the language of the blocks that create its tables, and the environment variables that the
//! commands need to reach it.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::harness::mssql::program_database::ProgramDatabase;

/// Long timeouts, because all tests share the server and it can be slow.
const LONG_TIMEOUTS: [(&str, &str); 3] = [
    ("LEASE_BROKER_STORE__CONNECT_TIMEOUT", "60s"),
    ("LEASE_BROKER_STORE__HANDSHAKE_TIMEOUT", "60s"),
    ("LEASE_BROKER_STORE__COMMAND_TIMEOUT", "60s"),
];

pub(crate) enum Store {
    /// The database file that the configuration names.
    Sqlite,
    SqlServer {
        database: ProgramDatabase,
        /// The environment variables that the document tells the reader to set.
        exports: Vec<(String, String)>,
    },
}

impl Store {
    /// Creates a database on the server for a reader of `document`.
    pub(crate) fn sql_server(document: &str) -> Self {
        let exports = document
            .lines()
            .filter_map(|line| line.strip_prefix("export ")?.split_once('='));
        let exports: Vec<_> = exports
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        assert!(
            !exports.is_empty(),
            "the document exports no variable for the server"
        );
        Self::SqlServer {
            database: ProgramDatabase::create(),
            exports,
        }
    }

    /// Returns the language of the code blocks that create the tables.
    pub(crate) fn language(&self) -> &'static str {
        match self {
            Self::Sqlite => "sql",
            Self::SqlServer { .. } => "tsql",
        }
    }

    /// Runs SQL as another program of the reader would.
    pub(crate) fn run_sql(&self, sql: &str, folder: &Path, configuration: &str) {
        match self {
            Self::Sqlite => {
                let connection = rusqlite::Connection::open(folder.join(file(configuration)));
                let ran = connection.expect("a database").execute_batch(sql);
                ran.unwrap_or_else(|error| panic!("{error}: {sql}"));
            }
            Self::SqlServer { database, .. } => database.run(sql),
        }
    }

    /// Creates the tables. Saves in `folder` the database file, or the file with the connection string that a variable names.
    pub(crate) fn make(&self, tables: &str, folder: &Path, configuration: &str) {
        self.run_sql(tables, folder, configuration);
        if let Self::SqlServer { database, exports } = self {
            let variable = exports.iter().find(|(name, _)| name.ends_with("_FILE"));
            let (_, name) = variable.expect("a file for the connection string");
            let saved = std::fs::write(folder.join(name), database.connection_string());
            saved.expect("the connection string is saved");
        }
    }

    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        match self {
            Self::Sqlite => Vec::new(),
            Self::SqlServer { exports, .. } => {
                let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                exports
                    .iter()
                    .cloned()
                    .chain(LONG_TIMEOUTS.map(owned))
                    .collect()
            }
        }
    }

    /// Gives claims on a busy server more time. A claim that is repeated gets other leases.
    pub(crate) fn patient(&self, command: &str) -> String {
        match self {
            Self::Sqlite => command.to_owned(),
            Self::SqlServer { .. } => {
                command.replace("lease-broker claim ", "lease-broker claim --timeout 60s ")
            }
        }
    }

    /// Returns whether a command failed because the store was unavailable. A busy server may take longer than the timeouts of
    /// the broker. The other commands of the recipes can be repeated.
    pub(crate) fn is_unavailable(&self, printed: &[String]) -> bool {
        let is_outage = |line: &String| {
            line.contains("(STORE_UNAVAILABLE)")
                || line.contains("the service did not answer in time")
        };
        matches!(self, Self::SqlServer { .. }) && printed.iter().any(is_outage)
    }

    /// Replaces the server in the start line of `serve` with the file that the document shows.
    pub(crate) fn as_shown(&self, printed: &str, configuration: &str) -> String {
        static SERVER: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"queues in (Babelfish|SQL Server) [0-9.]+ at \S+: ").expect("a pattern")
        });
        match self {
            Self::Sqlite => printed.to_owned(),
            Self::SqlServer { .. } => {
                let location = format!("queues in {}: ", file(configuration));
                SERVER.replace_all(printed, location).into_owned()
            }
        }
    }
}

/// Returns the database file that a configuration names.
fn file(configuration: &str) -> &str {
    let (_, path) = configuration
        .split_once("path = \"")
        .expect("the store's path");
    path.split('"').next().expect("a path")
}
