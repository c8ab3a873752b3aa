//! Settings that come with flags, and the store that they name.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::CommandError;
use crate::config::{self, Config, Flag, Sources, StoreKind};
use crate::store::mssql::{self, MssqlSchema, MssqlStore};
use crate::store::schema::Schema;
use crate::store::sqlite::{SqliteSchema, SqliteStore, system_clock};
use crate::store::{Store, StoreError};

/// Where the settings are.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    /// Configuration file; what it does not set is as in deploy/config.default.toml
    #[arg(long, value_name = "FILE", env = "LEASE_BROKER_CONFIG")]
    config: Option<PathBuf>,
    /// SQLite file that holds the queues [setting: store.path]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

impl ConfigArgs {
    /// Reads the configuration: defaults, file, environment, flags.
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
        if self.store.is_some() && config.store.kind != StoreKind::Sqlite {
            return Err(CommandError::usage(
                "--store names a SQLite file, and store.kind is \"mssql\": leave one of them out",
            ));
        }
        Ok(config)
    }
}

/// Opens the store that the configuration names.
pub(super) async fn open_store(config: &Config) -> Result<Arc<dyn Store>, CommandError> {
    let opened: Result<Arc<dyn Store>, StoreError> = match config.store.kind {
        StoreKind::Sqlite => {
            let opened = SqliteStore::open(&config.store.path, &config.queues, system_clock());
            opened.map(|store| Arc::new(store) as _)
        }
        StoreKind::Mssql => {
            let settings = mssql_settings(&config.store)?;
            let opened = MssqlStore::open(&settings, &config.queues).await;
            opened.map(|store| Arc::new(store) as _)
        }
    };
    opened.map_err(|error| match error {
        StoreError::Misconfigured(problems) => CommandError::usage(format!(
            "{problems}\nTo see what is missing: lease-broker schema plan. To add it: lease-broker schema apply. (Give \
             them the same --config and --store.)"
        )),
        other => other.into(),
    })
}

/// Opens the store that the configuration names, if it is there already.
pub(super) async fn open_existing_store(config: &Config) -> Result<Arc<dyn Store>, CommandError> {
    if config.store.kind == StoreKind::Sqlite && !config.store.path.exists() {
        return Err(CommandError::io(format!(
            "there is no file {}; name another with --store or --config",
            config.store.path.display()
        )));
    }
    open_store(config).await
}

/// What a schema is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaAccess {
    Read,
    Change,
}

/// Opens the schema of the store that the configuration names. Not to be used within a runtime.
pub(super) fn open_schema(
    config: &Config,
    access: SchemaAccess,
) -> Result<Box<dyn Schema>, CommandError> {
    let path = &config.store.path;
    Ok(match (config.store.kind, access) {
        (StoreKind::Sqlite, SchemaAccess::Read) => Box::new(SqliteSchema::open_to_read(path)?),
        (StoreKind::Sqlite, SchemaAccess::Change) => Box::new(SqliteSchema::open(path)?),
        (StoreKind::Mssql, _) => Box::new(MssqlSchema::open(&mssql_settings(&config.store)?)?),
    })
}

/// Reads how to reach the server; the connection string may be in a file of its own.
fn mssql_settings(store: &config::Store) -> Result<mssql::Settings, CommandError> {
    let set = |path: &PathBuf| (!path.as_os_str().is_empty()).then(|| path.clone());
    let connection_string = match set(&store.connection_string_file) {
        None => store.connection_string.clone(),
        Some(path) => {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                let place = path.display();
                CommandError::usage(format!("store.connection_string_file: {place}: {error}"))
            })?;
            text.trim().to_owned().into()
        }
    };
    Ok(mssql::Settings {
        connection_string,
        access_token_file: set(&store.access_token_file),
        connect_timeout: store.connect_timeout,
        handshake_timeout: store.handshake_timeout,
        command_timeout: store.command_timeout,
        max_connections: store.max_connections,
        min_idle_connections: store.min_idle_connections,
        max_connection_age: store.max_connection_age,
    })
}
