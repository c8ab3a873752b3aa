//! One layer of the configuration: the settings of one source, and that source's name for error messages.

use std::path::Path;

use serde::Deserialize as _;
use toml::{Table, Value};

use super::error::ConfigError;
use super::variables::{SETTING_SEPARATOR, VARIABLE_PREFIX};

/// A setting that a command-line flag gives.
#[derive(Debug)]
pub struct Flag {
    /// The flag as the user types it, such as `--listen`. Error messages show it.
    pub name: &'static str,
    /// The parts of the key that the flag sets, such as `["server", "listen"]`.
    pub key: &'static [&'static str],
    /// The value of the setting.
    pub value: Value,
}

/// The settings of one source.
pub(super) struct Layer {
    /// The settings, as a TOML document would hold them.
    pub(super) table: Table,
    /// The source of the settings.
    pub(super) origin: Origin,
}

/// The source of a layer, with what is needed to locate a key in it.
pub(super) enum Origin {
    /// A TOML document: its name and its text, in which a key's line can be found.
    Text { name: String, text: String },
    /// Environment variables: the parts of each key, and the name of the variable that sets it.
    Variables(Vec<(Vec<String>, String)>),
    /// One command-line flag.
    Flag { name: &'static str },
}

impl Layer {
    /// Parses a TOML document. `name` stands for the document in error messages.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let table = text.parse::<Table>().map_err(|error| ConfigError {
            key: String::new(),
            reason: match error.message() {
                // The parser's text is about its own types.
                text if text.contains("i128") => "the number does not fit into 64 bits".to_owned(),
                text => text.to_owned(),
            },
            location: match error.span() {
                Some(span) => format!("{name}:{}", line_at(text, span.start)),
                None => name.to_owned(),
            },
        })?;
        Ok(Self {
            table,
            origin: Origin::Text {
                name: name.to_owned(),
                text: text.to_owned(),
            },
        })
    }

    /// Reads and parses a TOML file.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            key: String::new(),
            reason: format!("cannot read the configuration file: {error}"),
            location: name.clone(),
        })?;
        Self::parse(&name, &text)
    }

    /// Collects the environment variables that are settings: their names have the prefix and a nested key.
    ///
    /// `LEASE_BROKER_SERVER__LISTEN` sets `server.listen`. `LEASE_BROKER_CONFIG` has no nested key and is ignored. It
    /// is the environment variable of the flag `--config`.
    pub(super) fn variables(environment: &[(String, String)]) -> Result<Self, ConfigError> {
        let mut table = Table::new();
        let mut names = Vec::new();
        for (name, text) in environment {
            let key = name.strip_prefix(VARIABLE_PREFIX);
            let Some(key) = key.filter(|key| key.contains(SETTING_SEPARATOR)) else {
                continue;
            };
            let key: Vec<String> = key
                .split(SETTING_SEPARATOR)
                .map(str::to_ascii_lowercase)
                .collect();
            insert(&mut table, &key, parse_env_value(text)).map_err(|()| ConfigError {
                key: key.join("."),
                reason: "set twice, as a value and as a section; remove one of the variables"
                    .to_owned(),
                location: format!("environment variable {name}"),
            })?;
            names.push((key, name.clone()));
        }
        Ok(Self {
            table,
            origin: Origin::Variables(names),
        })
    }

    /// Makes a layer of one flag.
    pub(super) fn flag(flag: &Flag) -> Self {
        let key: Vec<String> = flag.key.iter().map(|part| (*part).to_owned()).collect();
        let mut table = Table::new();
        let inserted = insert(&mut table, &key, flag.value.clone());
        debug_assert!(inserted.is_ok());
        Self {
            table,
            origin: Origin::Flag { name: flag.name },
        }
    }

    /// Returns whether this layer defines a queue.
    ///
    /// Settings for the queue `default` only adjust the default queue, unless they give it another table or other
    /// columns.
    pub(super) fn configures_a_queue(&self) -> bool {
        let Some(Value::Table(queues)) = self.table.get("queues") else {
            return self.table.contains_key("queues");
        };
        let adjusts_default = |name: &str, queue: &Value| {
            let redefines = ["table", "managed_columns"]
                .iter()
                .any(|key| queue.get(key).is_some());
            name == "default" && !redefines
        };
        queues.is_empty()
            || !queues
                .iter()
                .all(|(name, queue)| adjusts_default(name, queue))
    }
}

/// Returns the line, counted from 1, that contains the byte at `offset`.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// Inserts a value under a nested key and creates the sections around it.
///
/// Fails if the key is set already, or if a part of it is a value where a section is needed.
fn insert(table: &mut Table, key: &[String], value: Value) -> Result<(), ()> {
    match key {
        [] => Err(()),
        [last] => match table.insert(last.clone(), value) {
            None => Ok(()),
            Some(_) => Err(()),
        },
        [first, rest @ ..] => {
            let section = table.entry(first.clone());
            match section.or_insert_with(|| Value::Table(Table::new())) {
                Value::Table(section) => insert(section, rest, value),
                _ => Err(()),
            }
        }
    }
}

/// Parses the value of an environment variable as a TOML value. Text that is not valid TOML is taken as a string.
fn parse_env_value(text: &str) -> Value {
    toml::de::ValueDeserializer::parse(text)
        .and_then(Value::deserialize)
        .unwrap_or_else(|_| Value::String(text.to_owned()))
}
