//! Reader of files of items: CSV with the names of the columns in the first line, or one JSON object per line.

use std::collections::HashSet;
use std::io::{self, BufRead, Read};
use std::iter;

use lease_broker_proto as proto;

use super::CommandError;
use super::item_input::{columns_from_texts, item_from_text};

/// Items of a file, each with its line number.
pub(crate) type Items =
    Box<dyn Iterator<Item = Result<(u64, proto::NewItem), CommandError>> + Send>;

/// Reads CSV. An empty value leaves its column out.
///
/// # Errors
/// The first line cannot be read, ends inside quotes, or names a column twice.
pub(crate) fn csv(input: impl Read + Send + 'static, name: &str) -> Result<Items, CommandError> {
    let name = name.to_owned();
    let cut_off = move |name: &str, line| {
        CommandError::usage(format!(
            "{name}:{line}: the file ends inside a quoted value; was it cut off?"
        ))
    };
    let mut reader = csv::Reader::from_reader(QuoteReader::new(input));
    let columns = reader
        .headers()
        .map_err(|error| unreadable(&name, &error))?
        .clone();
    if reader.get_ref().ended_in_quotes() {
        return Err(cut_off(&name, 1));
    }
    let mut names = HashSet::new();
    if let Some(twice) = columns.iter().find(|column| !names.insert(*column)) {
        return Err(CommandError::usage(format!(
            "{name}: the first line has the column {twice:?} twice"
        )));
    }
    let mut records = reader.into_records();
    let records = iter::from_fn(move || {
        let record = records.next()?;
        Some((record, records.reader().get_ref().ended_in_quotes()))
    });
    let items = records.map(move |(record, ended_in_quotes)| {
        let record = record.map_err(|error| unreadable(&name, &error))?;
        let line = record.position().map_or(0, csv::Position::line);
        if ended_in_quotes {
            return Err(cut_off(&name, line));
        }
        let values = columns
            .iter()
            .zip(&record)
            .filter(|(_, value)| !value.is_empty());
        let item = proto::NewItem {
            columns: columns_from_texts(values).map_err(CommandError::usage)?,
            ..proto::NewItem::default()
        };
        Ok((line, item))
    });
    Ok(Box::new(items))
}

/// Returns the error of a file that is not CSV, or that cannot be read.
fn unreadable(name: &str, error: &csv::Error) -> CommandError {
    let text = format!("{name}: {error}");
    if error.is_io_error() {
        CommandError::io(text)
    } else {
        CommandError::usage(text)
    }
}

/// Passes CSV on, and notes if it ends inside a quoted value. The CSV reader accepts that.
struct QuoteReader<R> {
    input: R,
    place: Place,
    is_at_end: bool,
}

/// The place between two bytes of CSV.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    ValueStart,
    InValue,
    InQuotes,
    /// Behind a quote inside quotes. Another quote goes on with the value.
    BehindQuote,
}

impl<R> QuoteReader<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            place: Place::ValueStart,
            is_at_end: false,
        }
    }

    fn ended_in_quotes(&self) -> bool {
        self.is_at_end && self.place == Place::InQuotes
    }
}

impl<R: Read> Read for QuoteReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.is_at_end = length == 0 && !buffer.is_empty();
        for byte in &buffer[..length] {
            self.place = match (self.place, byte) {
                (Place::InQuotes, b'"') => Place::BehindQuote,
                (Place::InQuotes, _) | (Place::ValueStart | Place::BehindQuote, b'"') => {
                    Place::InQuotes
                }
                // A byte order mark can come before a quote.
                (Place::ValueStart, 0xef | 0xbb | 0xbf) | (_, b',' | b'\n' | b'\r') => {
                    Place::ValueStart
                }
                _ => Place::InValue,
            };
        }
        Ok(length)
    }
}

/// Reads JSON lines. Empty lines are skipped.
pub(crate) fn jsonl(input: impl BufRead + Send + 'static, name: &str) -> Items {
    let name = name.to_owned();
    let lines = (1..).zip(input.lines());
    Box::new(lines.filter_map(move |(line, text)| {
        let item = || {
            let text = text.map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => CommandError::usage(error.to_string()),
                _ => CommandError::io(error.to_string()),
            })?;
            // Some editors start a file with a byte order mark. The CSV reader skips it by itself.
            let text = text.trim_start_matches('\u{feff}');
            if text.trim().is_empty() {
                return Ok(None);
            }
            item_from_text(text).map(Some).map_err(CommandError::usage)
        };
        match item() {
            Ok(item) => item.map(|item| Ok((line, item))),
            Err(error) => Some(Err(error.with_context(format!("{name}:{line}")))),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of items, or the message of the first error.
    fn read(text: &'static str) -> Result<usize, String> {
        let items = csv(text.as_bytes(), "f.csv").and_then(|items| {
            let items: Result<Vec<_>, CommandError> = items.collect();
            items
        });
        items
            .map(|items| items.len())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn csv_that_ends_inside_quotes_is_refused_with_the_line() {
        for (text, line) in [
            ("a,b\n1,2\n3,\"x", 3),
            ("a,b\n1,2\n3,\"x\"\"", 3),
            ("a,b\n1,\"x\ny", 2),
            ("a,\"b", 1),
        ] {
            let error = read(text).expect_err(text);
            let place = format!("f.csv:{line}: the file ends inside a quoted value");
            assert!(error.starts_with(&place), "{text:?}: {error}");
        }
    }

    #[test]
    fn quotes_that_end_are_accepted() {
        for text in [
            "a,b\n1,2\n3,\"x\"",
            "a,b\n1,2\n3,\"x\"\"\"",
            "a,b\n1,2\n3,x\"y",
            "\u{feff}\"a\",b\n1,\"x\ny\"\n3,\"\"\n",
        ] {
            assert_eq!(read(text), Ok(2), "{text:?}");
        }
    }
}
