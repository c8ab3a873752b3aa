//! Reads the layers of the configuration, lays them over one another, and says of what is wrong where it stands.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use toml::{Table, Value};

use super::{Config, DEFAULT, Document, Problem};

const PREFIX: &str = "LEASE_BROKER_";

/// Where settings come from, besides the defaults.
#[derive(Debug, Default)]
pub struct Sources {
    /// The file given.
    pub file: Option<PathBuf>,
    /// Environment variables, by name; only those with the prefix and a nested key count.
    pub environment: Vec<(String, String)>,
    /// Keys set by flags, with the flag's name.
    pub flags: Vec<Flag>,
}

/// A setting that a flag gives.
#[derive(Debug)]
pub struct Flag {
    /// The flag, as it is typed.
    pub name: &'static str,
    /// The key's parts.
    pub key: &'static [&'static str],
    /// Its value.
    pub value: Value,
}

/// A configuration that can't be used: the key, what is wrong with it, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The key, its parts joined by dots; empty if the file as a whole is wrong.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// The file and line, the variable or the flag.
    pub place: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(out, "{}: {}", self.place, self.problem)
        } else {
            write!(out, "{}: {}: {}", self.place, self.key, self.problem)
        }
    }
}

impl std::error::Error for ConfigError {}

/// One layer: its settings, and how to tell where one of them stands.
struct Layer {
    table: Table,
    origin: Origin,
}

enum Origin {
    Text { name: String, text: String },
    Variables(Vec<(Vec<String>, String)>),
    Flag { name: &'static str },
}

impl Sources {
    /// Takes the process's environment.
    #[must_use]
    pub fn with_process_environment(mut self) -> Self {
        // A variable whose name or value is not UTF-8 is none of ours.
        self.environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        self
    }

    /// Reads and checks the configuration.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let mut layers = vec![Layer::parse("the default configuration", DEFAULT)?];
        if let Some(path) = &self.file {
            layers.push(Layer::read(path)?);
        }
        layers.push(Layer::variables(&self.environment)?);
        layers.extend(self.flags.iter().map(Layer::flag));
        // The default queue is there for a first run only.
        if layers[1..].iter().any(Layer::has_queues_of_its_own) {
            layers[0].table.remove("queues");
        }
        let mut merged = Table::new();
        for layer in &layers {
            merge(&mut merged, &layer.table);
        }
        let located = |problem| locate(&layers, problem);
        lay_queue_defaults(&mut merged);
        let document: Document = serde_path_to_error::deserialize(Value::Table(merged))
            .map_err(|error| Problem {
                key: error.path().to_string(),
                why: error.inner().message().to_owned(),
            })
            .map_err(located)?;
        document.check().map_err(located)
    }
}

impl Layer {
    fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let table = text.parse::<Table>().map_err(|error| ConfigError {
            key: String::new(),
            problem: error.message().to_owned(),
            place: match error.span() {
                Some(span) => format!("{name}:{}", line_of(text, span.start)),
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

    fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            key: String::new(),
            problem: format!("the configuration file can't be read: {error}"),
            place: name.clone(),
        })?;
        Self::parse(&name, &text)
    }

    fn variables(environment: &[(String, String)]) -> Result<Self, ConfigError> {
        let mut table = Table::new();
        let mut names = Vec::new();
        for (name, text) in environment {
            let Some(key) = name.strip_prefix(PREFIX).filter(|key| key.contains("__")) else {
                continue;
            };
            let key: Vec<String> = key.split("__").map(str::to_ascii_lowercase).collect();
            set(&mut table, &key, typed(text)).map_err(|()| ConfigError {
                key: key.join("."),
                problem: "is set twice, as a value and as a section".to_owned(),
                place: format!("environment variable {name}"),
            })?;
            names.push((key, name.clone()));
        }
        Ok(Self {
            table,
            origin: Origin::Variables(names),
        })
    }

    /// Returns whether it configures a queue, and does not only set keys of the default one.
    fn has_queues_of_its_own(&self) -> bool {
        let Some(Value::Table(queues)) = self.table.get("queues") else {
            return self.table.contains_key("queues");
        };
        let adjusts = |name: &str, queue: &Value| {
            let own = ["table", "managed"];
            name == "default" && !own.iter().any(|key| queue.get(key).is_some())
        };
        queues.is_empty() || !queues.iter().all(|(name, queue)| adjusts(name, queue))
    }

    fn flag(flag: &Flag) -> Self {
        let key: Vec<String> = flag.key.iter().map(|part| (*part).to_owned()).collect();
        let mut table = Table::new();
        let fresh = set(&mut table, &key, flag.value.clone());
        debug_assert!(fresh.is_ok());
        Self {
            table,
            origin: Origin::Flag { name: flag.name },
        }
    }

    /// Says where this layer sets the key, or the section around it; none if it does not.
    fn place_of(&self, path: &[&str]) -> Option<String> {
        let mut at = self.table.get(*path.first()?)?;
        for part in &path[1..] {
            at = at.get(part)?;
        }
        Some(match &self.origin {
            Origin::Text { name, text } => match line_of_key(text, path) {
                Some(line) => format!("{name}:{line}"),
                None => name.clone(),
            },
            Origin::Variables(names) => {
                let within = |key: &[String]| key.iter().zip(path).all(|(own, part)| own == part);
                let name = names.iter().find(|(key, _)| within(key));
                format!(
                    "environment variable {}",
                    name.map_or(PREFIX, |(_, name)| name)
                )
            }
            Origin::Flag { name } => format!("flag {name}"),
        })
    }
}

/// Finds the place that sets the key: the topmost layer that has it, else that has what is around it.
fn locate(layers: &[Layer], problem: Problem) -> ConfigError {
    let parts = parts_of(layers, &problem.key);
    let found = (1..=parts.len()).rev().find_map(|length| {
        let path = &parts[..length];
        let place = layers.iter().rev().find_map(|layer| layer.place_of(path));
        place.or_else(|| {
            // A key that a queue takes from the defaults.
            let ["queues", _, key @ ..] = path else {
                return None;
            };
            let default: Vec<&str> = ["queue_defaults"]
                .into_iter()
                .chain(key.iter().copied())
                .collect();
            (!key.is_empty())
                .then(|| {
                    layers
                        .iter()
                        .rev()
                        .find_map(|layer| layer.place_of(&default))
                })
                .flatten()
        })
    });
    ConfigError {
        key: problem.key,
        problem: problem.why,
        place: found.unwrap_or_else(|| "configuration".to_owned()),
    }
}

/// Splits a key at its dots, but for those within the name of a queue or of another section that a layer has.
fn parts_of<'a>(layers: &[Layer], key: &'a str) -> Vec<&'a str> {
    let mut tables: Vec<&Table> = layers.iter().map(|layer| &layer.table).collect();
    let (mut parts, mut rest) = (Vec::new(), Some(key));
    while let Some(key) = rest {
        let names = tables.iter().flat_map(|table| table.keys());
        let within = |name: &str| {
            let behind = key.strip_prefix(name)?;
            (behind.is_empty() || behind.starts_with('.')).then_some(name.len())
        };
        let known = names.filter_map(|name| within(name)).max();
        let (part, behind) = key.split_at(known.or_else(|| key.find('.')).unwrap_or(key.len()));
        tables = tables
            .into_iter()
            .filter_map(|table| table.get(part)?.as_table())
            .collect();
        parts.push(part);
        rest = behind.strip_prefix('.');
    }
    parts
}

fn merge(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            // A queue's columns are a list, not settings to be mixed with those of another layer.
            (Some(Value::Table(under)), Value::Table(over)) if key != "managed" => {
                merge(under, over);
            }
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

fn lay_queue_defaults(merged: &mut Table) {
    let Some(Value::Table(defaults)) = merged.get("queue_defaults").cloned() else {
        return;
    };
    let Some(Value::Table(queues)) = merged.get_mut("queues") else {
        return;
    };
    for (_, queue) in queues.iter_mut() {
        if let Value::Table(own) = queue {
            let mut whole = defaults.clone();
            merge(&mut whole, own);
            *own = whole;
        }
    }
}

fn set(table: &mut Table, key: &[String], value: Value) -> Result<(), ()> {
    match key {
        [] => Err(()),
        [last] => match table.insert(last.clone(), value) {
            None => Ok(()),
            Some(_) => Err(()),
        },
        [first, rest @ ..] => {
            let section = table.entry(first.clone());
            match section.or_insert_with(|| Value::Table(Table::new())) {
                Value::Table(section) => set(section, rest, value),
                _ => Err(()),
            }
        }
    }
}

/// Reads a variable's text as the TOML value that it looks like, and as text if it looks like none.
fn typed(text: &str) -> Value {
    toml::de::ValueDeserializer::parse(text)
        .and_then(Value::deserialize)
        .unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

fn line_of_key(text: &str, path: &[&str]) -> Option<usize> {
    let document = toml::de::DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut line = None;
    for (at, part) in path.iter().enumerate() {
        let (key, value) = table.iter().find(|(key, _)| key.get_ref() == part)?;
        line = Some(line_of(text, key.span().start));
        match value.get_ref() {
            toml::de::DeValue::Table(inner) => table = inner,
            _ if at + 1 == path.len() => {}
            _ => return None,
        }
    }
    line
}
