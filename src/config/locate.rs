//! Finds the source that set a key: file and line, environment variable, or flag.

use toml::Table;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, InvalidSetting};
use super::layer::{Layer, Origin, line_at};
use super::variables::VARIABLE_PREFIX;

/// Adds the location to an invalid setting.
///
/// A setting that a queue takes from `queue_defaults` is located there. If no layer sets the key, the location is that
/// of the closest section around it.
pub(super) fn locate(layers: &[Layer], invalid: InvalidSetting) -> ConfigError {
    let location =
        |key: &str| location_of(layers, key).unwrap_or_else(|| "configuration".to_owned());
    let conflict = invalid
        .conflict
        .map(|key| format!("; {key} is set at {}", location(&key)));
    ConfigError {
        location: location(&invalid.key),
        reason: invalid.reason + &conflict.unwrap_or_default(),
        key: invalid.key,
    }
}

/// Returns the location of a key, or of the closest section around it.
fn location_of(layers: &[Layer], key: &str) -> Option<String> {
    let parts = split_key(layers, key);
    (1..=parts.len()).rev().find_map(|length| {
        let path = &parts[..length];
        find(layers, path).or_else(|| {
            let ["queues", _, key @ ..] = path else {
                return None;
            };
            if key.is_empty() {
                return None;
            }
            find(layers, &[["queue_defaults"].as_slice(), key].concat())
        })
    })
}

/// Returns the location of a key in the last layer that has it: its value is the one in effect.
fn find(layers: &[Layer], path: &[&str]) -> Option<String> {
    layers
        .iter()
        .rev()
        .find_map(|layer| location_in(layer, path))
}

/// Returns the location of a key or section in one layer, or `None` if the layer does not have it.
fn location_in(layer: &Layer, path: &[&str]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    let mut value = layer.table.get(*first)?;
    for part in rest {
        value = value.get(part)?;
    }
    Some(match &layer.origin {
        Origin::Text { name, text } => match line_of_key(text, path) {
            Some(line) => format!("{name}:{line}"),
            None => name.clone(),
        },
        Origin::Variables(names) => {
            let on_path = |key: &[String]| key.iter().zip(path).all(|(name, part)| name == part);
            let variable = names.iter().find(|(key, _)| on_path(key));
            format!(
                "environment variable {}",
                variable.map_or(VARIABLE_PREFIX, |(_, name)| name)
            )
        }
        Origin::Flag { name } => format!("flag {name}"),
    })
}

/// Splits a key into its parts. A dot inside the name of a queue, or of another section that a layer has, does not
/// separate parts.
fn split_key<'a>(layers: &[Layer], key: &'a str) -> Vec<&'a str> {
    let mut tables: Vec<&Table> = layers.iter().map(|layer| &layer.table).collect();
    let (mut parts, mut rest) = (Vec::new(), Some(key));
    while let Some(key) = rest {
        let names = tables.iter().flat_map(|table| table.keys());
        let length_if_first_part = |name: &str| {
            let after = key.strip_prefix(name)?;
            (after.is_empty() || after.starts_with('.')).then_some(name.len())
        };
        let known_length = names.filter_map(|name| length_if_first_part(name)).max();
        let length = known_length.or_else(|| key.find('.')).unwrap_or(key.len());
        let (part, after) = key.split_at(length);
        tables = tables
            .into_iter()
            .filter_map(|table| table.get(part)?.as_table())
            .collect();
        parts.push(part);
        rest = after.strip_prefix('.');
    }
    parts
}

/// Returns the line of a TOML document that sets a key or opens a section.
fn line_of_key(text: &str, path: &[&str]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut line = None;
    for (index, part) in path.iter().enumerate() {
        let (key, value) = table.iter().find(|(key, _)| key.get_ref() == part)?;
        line = Some(line_at(text, key.span().start));
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ if index + 1 == path.len() => {}
            _ => return None,
        }
    }
    line
}
