//! Arguments that name the configuration and the store, and the functions that load and open them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::mssql::{self, MssqlReader, MssqlSchema, MssqlStore};
use lease_broker_store::schema::Schema;
use lease_broker_store::sqlite::{
    SqliteReader, SqliteSchema, SqliteStore, refuse_missing_file, system_clock,
};
use lease_broker_store::{Browse, Store, StoreError};

use super::CommandError;
use super::similar::most_similar;
use crate::config::{self, Config, Flag, Sources, StoreKind};
use crate::logging;

/// Arguments of every command that reads the configuration.
#[derive(Clone, Debug, Args)]
pub(super) struct ConfigArgs {
    /// Configuration file. Settings that it lacks have the defaults of deploy/config.default.toml
    #[arg(long, value_name = "FILE", env = "LEASE_BROKER_CONFIG")]
    config: Option<PathBuf>,
    /// SQLite file with the tables of the queues [setting: store.path]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

impl ConfigArgs {
    /// Returns the arguments of a command that reads the configuration and opens no store.
    pub(super) fn of_file(config: Option<PathBuf>) -> Self {
        Self {
            config,
            store: None,
        }
    }

    /// Loads the configuration from the defaults, the file, the environment and the flags. Later sources win.
    pub(super) fn load(&self, mut flags: Vec<Flag>) -> Result<Config, CommandError> {
        if let Some(path) = &self.store {
            let path = path
                .to_str()
                .ok_or_else(|| CommandError::usage("--store: the path is not valid UTF-8"))?;
            flags.push(Flag {
                name: "--store",
                key: &["store", "path"],
                value: path.into(),
            });
        }
        let sources = Sources {
            file: self.config.clone(),
            flags,
            ..Sources::default()
        };
        let config = sources.with_process_environment().load()?;
        logging::check_level(&config.log).map_err(CommandError::usage)?;
        if self.store.is_some() && config.store.kind != StoreKind::Sqlite {
            return Err(CommandError::usage(
                "--store names a SQLite file, but store.kind is \"mssql\"; remove one of them",
            ));
        }
        Ok(config)
    }
}

/// Returns the error of a command whose queue is not one of the configured ones or, as `None`, not given.
pub(super) fn unknown_queue<'a>(
    configured: impl Iterator<Item = &'a str>,
    name: Option<&str>,
) -> CommandError {
    let names: Vec<&str> = configured.collect();
    let configured = names.join(", ");
    CommandError::usage(match name {
        None => format!("name a queue; configured are {configured}"),
        Some(name) => {
            let hint = most_similar(name, names).map(|name| format!("; did you mean {name}?"));
            let hint = hint.unwrap_or_default();
            format!("no queue {name:?} is configured; configured are {configured}{hint}")
        }
    })
}

/// Opens the configured store. On SQLite, creates the file if it does not exist.
pub async fn open_store(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    open_store_for(config, &config.queues, Caller::Service).await
}

/// Who uses a store. An operator waits longer for a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Service,
    Operator,
}

async fn open_store_for(
    config: &Config,
    queues: &[QueueSpec],
    caller: Caller,
) -> Result<Arc<dyn Store>, StoreError> {
    match config.store.kind {
        StoreKind::Sqlite => {
            let opened = SqliteStore::open(&config.store.path, queues, system_clock());
            opened.map(|store| Arc::new(store) as _)
        }
        StoreKind::Mssql => {
            let settings = mssql_settings(&config.store)?;
            let settings = match caller {
                Caller::Service => settings,
                Caller::Operator => settings.for_operator(),
            };
            let opened = MssqlStore::open(&settings, queues).await;
            opened.map(|store| Arc::new(store) as _)
        }
    }
}

/// Opens the configured store for an operator's command that changes these queues, or none. The tables of other queues are not
/// opened, because one of them can be missing. Unlike [`open_store`], creates no SQLite file and changes no table.
pub(super) async fn open_existing_store(
    config: &Config,
    queues: &[QueueSpec],
) -> Result<Arc<dyn Store>, CommandError> {
    refuse_missing_store(config)?;
    // A broker changes a managed table as its configuration says. The one of an operator can be another.
    let as_it_is = |queue: &QueueSpec| QueueSpec {
        managed_columns: None,
        ..queue.clone()
    };
    let queues: Vec<QueueSpec> = queues.iter().map(as_it_is).collect();
    let opened = open_store_for(config, &queues, Caller::Operator).await;
    opened.map_err(|error| match error {
        StoreError::Misconfigured(problem) => CommandError::usage(format!(
            "{problem}\nThis command changes no table. If a broker serves the queue, change nothing, and give this command the \
             configuration of the broker. Otherwise start a broker first."
        )),
        error => error.into(),
    })
}

/// Returns the SQLite file of the configured store.
///
/// # Errors
/// Exit code 64 if the store is on a server.
pub(super) fn sqlite_file<'a>(config: &'a Config, command: &str) -> Result<&'a Path, CommandError> {
    match config.store.kind {
        StoreKind::Sqlite => Ok(&config.store.path),
        StoreKind::Mssql => Err(CommandError::usage(format!(
            "`{command}` is for SQLite files; restore a database on a server with the means of the server, and then run \
             `lease-broker restore --in-place` (docs/backup.md)"
        ))),
    }
}

/// Returns the SQLite file of the configured store.
///
/// # Errors
/// Those of [`sqlite_file`]. Exit code 74 if the file does not exist.
pub(super) fn existing_file<'a>(
    config: &'a Config,
    command: &str,
) -> Result<&'a Path, CommandError> {
    let path = sqlite_file(config, command)?;
    refuse_missing_store(config)?;
    Ok(path)
}

fn refuse_missing_store(config: &Config) -> Result<(), CommandError> {
    if config.store.kind == StoreKind::Sqlite && !config.store.path.exists() {
        return Err(CommandError::io(format!(
            "file {} does not exist; name another with --store or --config",
            config.store.path.display()
        )));
    }
    Ok(())
}

/// Returns the settings of a queue.
///
/// # Errors
/// Exit code 64 if the configuration has no queue of this name.
pub(super) fn configured_queue<'a>(
    config: &'a Config,
    name: &str,
) -> Result<&'a QueueSpec, CommandError> {
    let queue = config.queues.iter().find(|queue| queue.name == name);
    queue.ok_or_else(|| unknown_queue(config.queues.iter().map(|queue| &*queue.name), Some(name)))
}

/// Opens the configured store for a command that only looks at these queues, or at none. The command then needs no right to write, and
/// waits for no other program that writes.
pub(super) async fn open_to_read(
    config: &Config,
    queues: &[QueueSpec],
) -> Result<Arc<dyn Browse>, CommandError> {
    refuse_missing_store(config)?;
    let opened: Result<Arc<dyn Browse>, StoreError> = match config.store.kind {
        StoreKind::Sqlite => {
            let opened = SqliteReader::open(&config.store.path, queues, system_clock());
            opened.map(|reader| Arc::new(reader) as _)
        }
        StoreKind::Mssql => {
            let settings = mssql_settings(&config.store)?;
            let opened = MssqlReader::open(&settings, queues).await;
            opened.map(|reader| Arc::new(reader) as _)
        }
    };
    Ok(opened?)
}

/// The access that a command needs to the schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaAccess {
    /// Reads only. A SQLite file is not created or changed.
    Read,
    /// Creates and changes tables. A SQLite file is created if it does not exist and the broker creates all tables.
    Change,
}

/// Opens the schema of the configured store. Must not be called within an async runtime, because the SQL Server schema
/// starts its own.
pub(super) fn open_schema(
    config: &Config,
    access: SchemaAccess,
) -> Result<Box<dyn Schema>, CommandError> {
    let path = &config.store.path;
    Ok(match (config.store.kind, access) {
        (StoreKind::Sqlite, SchemaAccess::Read) => Box::new(SqliteSchema::open_to_read(path)?),
        (StoreKind::Sqlite, SchemaAccess::Change) => {
            refuse_missing_file(path, &config.queues)?;
            Box::new(SqliteSchema::open(path)?)
        }
        (StoreKind::Mssql, _) => Box::new(MssqlSchema::open(&mssql_settings(&config.store)?)?),
    })
}

/// Returns the connection settings for SQL Server. Reads the connection string from its file if one is configured.
fn mssql_settings(store: &config::Store) -> Result<mssql::Settings, StoreError> {
    let non_empty = |path: &PathBuf| (!path.as_os_str().is_empty()).then(|| path.clone());
    let connection_string = match non_empty(&store.connection_string_file) {
        None => store.connection_string.clone(),
        Some(path) => {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                let path = path.display();
                StoreError::Misconfigured(format!("store.connection_string_file: {path}: {error}"))
            })?;
            text.trim().to_owned().into()
        }
    };
    Ok(mssql::Settings {
        connection_string,
        connection_string_file: non_empty(&store.connection_string_file),
        access_token_file: non_empty(&store.access_token_file),
        connect_timeout: store.connect_timeout,
        handshake_timeout: store.handshake_timeout,
        command_timeout: store.command_timeout,
        lock_timeout: None,
        max_connections: store.max_connections,
        min_idle_connections: store.min_idle_connections,
        max_connection_age: store.max_connection_age,
    })
}
