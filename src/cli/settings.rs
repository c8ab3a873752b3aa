//! Settings that come with flags, and the store that they name.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use crate::config::Flag;
use crate::config::{Config, Sources, StoreKind};
use crate::store::sqlite::{SqliteStore, system_clock};

/// Where the settings are.
#[derive(Debug, Args)]
pub(super) struct Settings {
    /// Configuration file; what it does not set is as in deploy/config.default.toml
    #[arg(long, value_name = "FILE", env = "LEASE_BROKER_CONFIG")]
    config: Option<PathBuf>,
    /// SQLite file that holds the queues [setting: store.path]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

impl Settings {
    /// Reads the configuration: defaults, file, environment, flags.
    pub(super) fn load(&self, mut flags: Vec<Flag>) -> Result<Config, Failure> {
        if let Some(path) = &self.store {
            let path = path
                .to_str()
                .ok_or_else(|| Failure::usage("--store: the path is not valid UTF-8"))?;
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
        Ok(sources.with_process_environment().load()?)
    }
}

/// Opens the store that the configuration names.
pub(super) fn open_store(config: &Config) -> Result<SqliteStore, Failure> {
    match config.store.kind {
        StoreKind::Sqlite => {}
    }
    let opened = SqliteStore::open(&config.store.path, &config.queues, system_clock());
    opened.map_err(|error| match error {
        crate::store::StoreError::Misconfigured(problems) => Failure::usage(format!(
            "{problems}\nTo see what is missing: lease-broker schema plan. To add it: lease-broker schema apply. (Give \
             them the same --config and --store.)"
        )),
        other => other.into(),
    })
}

/// Opens the store that the configuration names, if it is there already.
pub(super) fn open_existing_store(config: &Config) -> Result<SqliteStore, Failure> {
    if !config.store.path.exists() {
        return Err(Failure::io(format!(
            "there is no file {}; name another with --store or --config",
            config.store.path.display()
        )));
    }
    open_store(config)
}
