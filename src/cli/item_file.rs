//! Reader of files of items: CSV with the names of the columns in the first line, or one JSON object per line.

use std::collections::HashSet;
use std::io::{BufRead, Read};

use lease_broker_proto as proto;
use serde_json::Value as Json;

use super::CommandError;
use super::item_input::{columns_from_texts, item_from_json};

/// Items of a file, each with its line number.
pub(crate) type Items =
    Box<dyn Iterator<Item = Result<(u64, proto::NewItem), CommandError>> + Send>;

/// Reads CSV. An empty value leaves its column out.
///
/// # Errors
/// The first line cannot be read, or names a column twice.
pub(crate) fn csv(input: impl Read + Send + 'static, name: &str) -> Result<Items, CommandError> {
    let name = name.to_owned();
    let mut reader = csv::Reader::from_reader(input);
    let columns = reader
        .headers()
        .map_err(|error| CommandError::failed(format!("{name}: {error}")))?
        .clone();
    let mut names = HashSet::new();
    if let Some(twice) = columns.iter().find(|column| !names.insert(*column)) {
        return Err(CommandError::failed(format!(
            "{name}: the first line has the column {twice:?} twice"
        )));
    }
    let items = reader.into_records().map(move |record| {
        let record = record.map_err(|error| CommandError::failed(format!("{name}: {error}")))?;
        let line = record.position().map_or(0, csv::Position::line);
        let values = columns
            .iter()
            .zip(&record)
            .filter(|(_, value)| !value.is_empty());
        let item = proto::NewItem {
            columns: columns_from_texts(values),
            ..proto::NewItem::default()
        };
        Ok((line, item))
    });
    Ok(Box::new(items))
}

/// Reads JSON lines. Empty lines are skipped.
pub(crate) fn jsonl(input: impl BufRead + Send + 'static, name: &str) -> Items {
    let name = name.to_owned();
    let lines = (1..).zip(input.lines());
    Box::new(lines.filter_map(move |(line, text)| {
        let item = || {
            let text = text.map_err(|error| CommandError::io(error.to_string()))?;
            // Some editors start a file with a byte order mark. The CSV reader skips it by itself.
            let text = text.trim_start_matches('\u{feff}');
            if text.trim().is_empty() {
                return Ok(None);
            }
            let json: Json = serde_json::from_str(text)
                .map_err(|error| CommandError::failed(format!("not JSON: {error}")))?;
            item_from_json(&json)
                .map(Some)
                .map_err(CommandError::failed)
        };
        match item() {
            Ok(item) => item.map(|item| Ok((line, item))),
            Err(error) => Some(Err(error.with_context(format!("{name}:{line}")))),
        }
    }))
}
