//! The sources of the configuration and their precedence: defaults, file, environment variables, flags. The variables
//! of OpenTelemetry come before the broker's own.
//!
//! Each source becomes a layer. The layers are merged, and a later layer replaces the settings of earlier ones. Only
//! the merged result is checked. A bad value therefore does no harm if a later layer replaces it.

use std::path::PathBuf;

use toml::{Table, Value};

use super::error::{ConfigError, InvalidSetting};
use super::layer::{Flag, Layer};
use super::locate::locate;
use super::otel_variables;
use super::{Config, DEFAULT, Document, Settings};

/// The sources of settings, besides the defaults. A later field takes precedence over an earlier one.
#[derive(Debug, Default)]
pub struct Sources {
    /// The configuration file. `None`: no file is read.
    pub file: Option<PathBuf>,
    /// Environment variables as name and value. Settings are those with the prefix `LEASE_BROKER_` and a nested key, and
    /// those of OpenTelemetry. All others are ignored.
    pub environment: Vec<(String, String)>,
    /// Settings that command-line flags give.
    pub flags: Vec<Flag>,
}

impl Sources {
    /// Takes the environment variables of this process.
    #[must_use]
    pub fn with_process_environment(mut self) -> Self {
        // The names of settings are ASCII. A variable that is not UTF-8 belongs to another program.
        self.environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        self
    }

    /// Reads all sources, merges them, and checks the result.
    ///
    /// # Errors
    /// The first setting or file that cannot be used, with its location.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let file = self.file.as_deref().map(Layer::read).transpose()?;
        self.load_over(file)
    }

    /// Does the same as [`Self::load`] with this text in place of the file.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) fn load_text(&self, text: &str) -> Result<Config, ConfigError> {
        self.load_over(Some(Layer::parse("the configuration file", text)?))
    }

    fn load_over(&self, file: Option<Layer>) -> Result<Config, ConfigError> {
        let mut layers = vec![Layer::parse("the default configuration", DEFAULT)?];
        layers.extend(file);
        let (otel_layer, otel_variables) = otel_variables::read(&self.environment);
        layers.push(otel_layer);
        layers.push(Layer::variables(&self.environment)?);
        layers.extend(self.flags.iter().map(Layer::flag));
        // The default queue exists only for a first run, before the user configures queues.
        if layers[1..].iter().any(Layer::configures_a_queue) {
            layers[0].table.remove("queues");
        }
        let mut merged = Table::new();
        for layer in &layers {
            merge(&mut merged, &layer.table);
        }
        apply_queue_defaults(&mut merged);
        let with_location = |invalid| locate(&layers, invalid);
        let settings = Settings(merged.clone());
        let mut document: Document = serde_path_to_error::deserialize(Value::Table(merged))
            .map_err(|error| InvalidSetting::new(error.path().to_string(), error.inner().message()))
            .map_err(with_location)?;
        document.telemetry.otel_variables = otel_variables;
        let config = document.check().map_err(with_location)?;
        Ok(Config { settings, ..config })
    }
}

/// Merges the settings of `upper` into `lower`. A setting of `upper` replaces the same setting of `lower`.
fn merge(lower: &mut Table, upper: &Table) {
    for (key, value) in upper {
        match (lower.get_mut(key), value) {
            // `managed_columns` is the full list of a table's columns. Two lists must not be mixed into a table that
            // neither layer describes.
            (Some(Value::Table(lower)), Value::Table(upper)) if key != "managed_columns" => {
                merge(lower, upper);
            }
            _ => {
                lower.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Fills the settings that a queue leaves out from `queue_defaults`.
fn apply_queue_defaults(merged: &mut Table) {
    let Some(Value::Table(defaults)) = merged.get("queue_defaults").cloned() else {
        return;
    };
    let Some(Value::Table(queues)) = merged.get_mut("queues") else {
        return;
    };
    for (_, queue) in queues.iter_mut() {
        if let Value::Table(settings) = queue {
            let mut complete = defaults.clone();
            merge(&mut complete, settings);
            *settings = complete;
        }
    }
}
