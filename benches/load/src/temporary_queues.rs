//! Temporary queues: a folder with a SQLite file and the configuration of queues on it. Removed when dropped.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use lease_broker::cli::CommandError;
use lease_broker::config::{Config, Flag, Sources};
use tempfile::TempDir;

use crate::args::{OnComplete, TargetArgs};
use crate::result::Result;

/// The queues of a bench without `--address` and `--config`.
pub(crate) struct TemporaryQueues {
    _folder: TempDir,
    pub(crate) config_file: PathBuf,
    pub(crate) store_file: PathBuf,
}

impl TemporaryQueues {
    /// Creates the folder and writes the configuration. The broker creates the SQLite file.
    pub(crate) fn create(args: &TargetArgs) -> Result<Self> {
        let folder = TempDir::with_prefix("lease-broker-bench-").map_err(|error| {
            CommandError::io(format!("a temporary folder can't be created: {error}"))
        })?;
        let config_file = folder.path().join("bench.toml");
        std::fs::write(&config_file, config(args))
            .map_err(|error| CommandError::io(format!("{}: {error}", config_file.display())))?;
        Ok(Self {
            store_file: folder.path().join("bench.db"),
            config_file,
            _folder: folder,
        })
    }
}

/// Returns the configuration. Failed items are tried again without limit, as `--items` waits until all are completed.
fn config(args: &TargetArgs) -> String {
    let mut config = String::new();
    for (number, name) in (1..).zip(queue_names(args)) {
        let on_complete = match args.on_complete {
            OnComplete::Keep => "'keep'".to_owned(),
            OnComplete::Delete => "'delete'".to_owned(),
            OnComplete::Archive => format!("{{ archive = 'bench_{number}_archive' }}"),
        };
        let _ = writeln!(
            config,
            "[queues.{name}]\ntable = 'bench_{number}'\nmanaged_columns = {{ {:?} = 'text' }}\nmax_attempts = 0\n\
             on_complete = {on_complete}",
            args.column
        );
    }
    config
}

/// Returns the names of the temporary queues.
pub(crate) fn queue_names(args: &TargetArgs) -> Vec<String> {
    let numbers = 1..=args.queues;
    numbers.map(|number| format!("bench-{number}")).collect()
}

/// Reads a configuration file and the environment, as `serve` does. `store_file` replaces the SQLite file that they
/// set.
pub(crate) fn read_config(file: &Path, store_file: Option<&Path>) -> Result<Config> {
    let store_flag = store_file.and_then(Path::to_str).map(|path| Flag {
        name: "--store",
        key: &["store", "path"],
        value: path.into(),
    });
    let sources = Sources {
        file: Some(file.to_owned()),
        flags: store_flag.into_iter().collect(),
        ..Sources::default()
    };
    Ok(sources.with_process_environment().load()?)
}
