//! The sources of the configuration and their precedence: defaults, file, environment variables, flags. The variables
//! of OpenTelemetry come before the broker's own.
//!
//! Each source becomes a layer. The layers are merged, and a later layer replaces the settings of earlier ones. Only
//! the merged result is checked. A bad value therefore does no harm if a later layer replaces it.

use std::path::PathBuf;

use serde_path_to_error::{Path, Segment};
use toml::{Table, Value};

use super::error::{ConfigError, InvalidSetting};
use super::layer::{Flag, Layer};
use super::locate::locate;
use super::otel_variables;
use super::plain_words::{UNKNOWN_FIELD, choices_of, in_plain_words, is_of_wrong_choice};
use super::{Config, DEFAULT, Document, Settings};

/// The sources of settings, besides the defaults. A later field takes precedence over an earlier one.
#[derive(Debug, Default)]
pub struct Sources {
    /// The configuration file. `None`: no file is read.
    pub file: Option<PathBuf>,
    /// Environment variables as name and value. Settings are those with the prefix `LEASE_BROKER_` and a nested key, and
    /// those of OpenTelemetry. All others are ignored.
    pub environment: Vec<(String, String)>,
    /// The names of environment variables whose values are not UTF-8.
    pub not_text: Vec<String>,
    /// Settings that command-line flags give.
    pub flags: Vec<Flag>,
}

/// Returns whether an environment variable with a nested key is a setting.
pub fn is_setting(variable: &str) -> bool {
    let sources = Sources {
        environment: vec![(variable.to_owned(), String::new())],
        ..Sources::default()
    };
    let error = sources.load().err();
    !error.is_some_and(|error| error.reason.starts_with(UNKNOWN_FIELD))
}

impl Sources {
    /// Takes the environment variables of this process.
    #[must_use]
    pub fn with_process_environment(mut self) -> Self {
        // The names of settings are ASCII. A variable whose name is not UTF-8 belongs to another program.
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        for (name, value) in variables {
            match value.into_string() {
                Ok(value) => self.environment.push((name, value)),
                Err(_) => self.not_text.push(name),
            }
        }
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
        let mut unreadable = self.not_text.iter();
        if let Some(name) = unreadable.find(|name| name.starts_with("LEASE_BROKER_")) {
            return Err(ConfigError {
                key: String::new(),
                reason: "the value is not valid UTF-8".to_owned(),
                location: format!("environment variable {name}"),
            });
        }
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
        let mut document = deserialize(merged).map_err(with_location)?;
        document.telemetry.otel_variables = otel_variables;
        let config = document.check().map_err(with_location)?;
        config
            .log
            .check(self.file.as_deref(), &config.store)
            .map_err(with_location)?;
        Ok(Config { settings, ..config })
    }
}

fn deserialize(merged: Table) -> Result<Document, InvalidSetting> {
    let mut value = Value::Table(merged);
    let error = match serde_path_to_error::deserialize(value.clone()) {
        Ok(document) => return Ok(document),
        Err(error) => error,
    };
    let message = error.inner().message();
    let mut reason = in_plain_words(message);
    if is_of_wrong_choice(message)
        && let Some(chosen) = value_at(&mut value, error.path())
    {
        // The error of a text that is no choice names the choices.
        *chosen = Value::String(String::new());
        let choices = serde_path_to_error::deserialize::<_, Document>(value).err();
        let choices = choices.and_then(|error| choices_of(error.inner().message()));
        reason = choices.unwrap_or(reason);
    }
    // The path of a name that is not known ends with a question mark.
    let path = error.path().to_string();
    Err(InvalidSetting::new(path.trim_end_matches(".?"), reason))
}

/// Returns the setting at a path.
fn value_at<'a>(value: &'a mut Value, path: &Path) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, part| match part {
        Segment::Seq { index } => value.get_mut(*index),
        Segment::Map { key } => value.get_mut(key),
        // The variant of a choice, which is the value that has the path.
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    })
}

/// Merges the settings of `upper` into `lower`. A setting of `upper` replaces the same setting of `lower`.
fn merge(lower: &mut Table, upper: &Table) {
    for (key, value) in upper {
        match (lower.get_mut(key), value) {
            // `managed_columns` is the full list of a table's columns, and `on_complete` is one choice. Two of them must not be
            // mixed into one that neither layer describes.
            (Some(Value::Table(lower)), Value::Table(upper))
                if !["managed_columns", "on_complete"].contains(&key.as_str()) =>
            {
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
