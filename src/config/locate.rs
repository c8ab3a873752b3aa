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
        value = match index_of(part) {
            Some(index) => value.get(index)?,
            None => value.get(part)?,
        };
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

/// Returns the index that a part such as `[2]` names.
fn index_of(part: &str) -> Option<usize> {
    part.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// Splits a key into its parts. The index of a list is a part of its own, such as `[2]`. A dot inside the name of a queue, or of another section that a layer has, does not
/// separate parts.
fn split_key<'a>(layers: &[Layer], key: &'a str) -> Vec<&'a str> {
    let mut tables: Vec<&Table> = layers.iter().map(|layer| &layer.table).collect();
    let (mut parts, mut rest) = (Vec::new(), Some(key));
    while let Some(key) = rest {
        let names = tables.iter().flat_map(|table| table.keys());
        let length_if_first_part = |name: &str| {
            let after = key.strip_prefix(name)?;
            (after.is_empty() || after.starts_with(['.', '['])).then_some(name.len())
        };
        let known_length = names.filter_map(|name| length_if_first_part(name)).max();
        let end = || key[1..].find(['.', '[']).map(|end| end + 1);
        let length = known_length.or_else(end).unwrap_or(key.len());
        let (part, after) = key.split_at(length);
        tables = tables
            .into_iter()
            .filter_map(|table| table.get(part)?.as_table())
            .collect();
        parts.push(part);
        rest = match after.strip_prefix('.') {
            None if after.is_empty() => None,
            None => Some(after),
            inner => inner,
        };
    }
    parts
}

/// Returns the line of a TOML document that sets a key, or opens a section or an entry of a list.
fn line_of_key(text: &str, path: &[&str]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let (first, rest) = path.split_first()?;
    let (mut key, mut value) = document.get_ref().get_key_value(*first)?;
    let mut start = key.span().start;
    for part in rest {
        match (value.get_ref(), index_of(part)) {
            (DeValue::Array(list), Some(index)) => {
                value = list.get(index)?;
                start = value.span().start;
            }
            (DeValue::Table(table), _) => {
                (key, value) = table.get_key_value(*part)?;
                start = key.span().start;
            }
            _ => return None,
        }
    }
    Some(line_at(text, start))
}
