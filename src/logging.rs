//! Logging: formats the events of the crate `tracing` as lines on standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Starts logging for the whole process.
///
/// # Errors
/// A message if the level is invalid, or if logging has been started before.
pub fn start(log: &Log) -> Result<(), String> {
    let filter = EnvFilter::builder()
        .parse(&log.level)
        .map_err(|error| format!("{:?} is not a log level: {error}", log.level))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match log.format {
        LogFormat::Human => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| error.to_string())
}
