//! The bench's own queues: their configuration, on a temporary SQLite file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::flags::{OnComplete, TargetFlags};
use crate::cli::CommandError;
use crate::config::{Config, Flag, Sources};
use crate::store::Store;
use crate::store::sqlite::{SqliteStore, system_clock};

/// Writes the configuration into `folder`; returns its path.
pub(super) fn write_config(folder: &Path, flags: &TargetFlags) -> Result<PathBuf, CommandError> {
    let mut text = String::new();
    for at in 1..=flags.queues {
        let on_complete = match flags.on_complete {
            OnComplete::Archive => format!("{{ archive = 'bench_{at}_archive' }}"),
            OnComplete::Keep | OnComplete::Delete => format!("'{}'", flags.on_complete.name()),
        };
        // An item that fails is always tried again: a run that waits for all to be completed can count on it.
        let _ = writeln!(
            text,
            "[queues.{}]\ntable = 'bench_{at}'\nmanaged = {{ {:?} = 'text' }}\nmax_attempts = 0\n\
             on_complete = {on_complete}",
            queue(at),
            flags.column
        );
    }
    let file = folder.join("bench.toml");
    std::fs::write(&file, text)
        .map_err(|error| CommandError::io(format!("{}: {error}", file.display())))?;
    Ok(file)
}

/// Returns the names of the queues.
pub(super) fn queues(flags: &TargetFlags) -> Vec<String> {
    (1..=flags.queues).map(queue).collect()
}

fn queue(at: u32) -> String {
    format!("bench-{at}")
}

/// Reads a configuration as `serve` does; `store` is the SQLite file, if it is given.
pub(super) fn read_config(config: &Path, store: Option<&Path>) -> Result<Config, CommandError> {
    let store = store.and_then(Path::to_str).map(|path| Flag {
        name: "--store",
        key: &["store", "path"],
        value: path.into(),
    });
    let sources = Sources {
        file: Some(config.to_owned()),
        flags: store.into_iter().collect(),
        ..Sources::default()
    };
    Ok(sources.with_process_environment().load()?)
}

/// Opens a fresh store of the queues in `folder`, in this process.
pub(super) fn fresh_store(
    folder: &Path,
    flags: &TargetFlags,
) -> Result<(Config, Arc<dyn Store>), CommandError> {
    let config = read_config(
        &write_config(folder, flags)?,
        Some(&folder.join("fresh.db")),
    )?;
    let store = SqliteStore::open(&config.store.path, &config.queues, system_clock())?;
    Ok((config, Arc::new(store)))
}
