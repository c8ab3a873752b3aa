//! How lists travel to the server: as JSON, which `OPENJSON` reads, beside what JSON can not carry to every server.
//!
//! Each statement with lists has the parameters @P1 and @P2, the characters of [`ListParameters::marks`] and what each stands for;
//! @P3, the bytes of all binary values; @P4, a list of long texts; @P5, how long the first list is; @P6 and on, the lists.
//! Babelfish leaves a string's
//! escapes as they are, reads no hexadecimal digits and cuts off what is longer than [`MAX_INLINE_UNITS`]. So a text holds a mark
//! where JSON wants an escape; a binary value is its place among the bytes, the pair of its start, from 1, and its length;
//! and a long text is its place among the long ones, from 0.

use serde_json::{Map, Value as Json, json};
use tiberius::ToSql;

/// What JSON escapes. NUL is not among them: the texts of Babelfish have none.
const ESCAPED: &str = "\"\\\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{e}\u{f}\u{10}\u{11}\u{12}\u{13}\
    \u{14}\u{15}\u{16}\u{17}\u{18}\u{19}\u{1a}\u{1b}\u{1c}\u{1d}\u{1e}\u{1f}";
/// How many characters that is; each is one UTF-16 unit, and so is each mark.
const ESCAPED_COUNT: u32 = 33;
/// The private use area of Unicode's first plane, in which a statement finds marks that none of its texts has.
const PRIVATE_USE_START: u32 = 0xE000;
const MARK_SETS: u32 = (0xF900 - PRIVATE_USE_START) / ESCAPED_COUNT;

/// The number of the parameter with a statement's first list.
pub(super) const FIRST_LIST: usize = 6;
/// How long a text in a list may be, in UTF-16 units.
pub(super) const MAX_INLINE_UNITS: usize = 4_000;

/// Writes what turns the marks of a text from the JSON into what they stand for. Compared by code point: a linguistic
/// collation has no weight for a mark.
pub(super) fn unescape_sql(name: &str) -> String {
    format!("TRANSLATE({name} COLLATE Latin1_General_100_BIN2, @P1, @P2)")
}

/// A value of a list's entry.
pub(super) enum EntryValue {
    Json(Json),
    Bytes(Vec<u8>),
    /// A text of more than [`MAX_INLINE_UNITS`] units; its name is followed by an `l`.
    Long(String),
}

impl From<Json> for EntryValue {
    fn from(json: Json) -> Self {
        Self::Json(json)
    }
}

/// An entry of a list.
#[derive(Default)]
pub(super) struct ListEntry(Vec<(String, EntryValue)>);

impl ListEntry {
    pub(super) fn insert(&mut self, name: impl Into<String>, value: impl Into<EntryValue>) {
        self.0.push((name.into(), value.into()));
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|(_, field)| match field {
            EntryValue::Json(Json::String(text)) | EntryValue::Long(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

/// The lists of one statement, ready to be sent.
pub(super) struct ListParameters {
    marks: String,
    bytes: Vec<u8>,
    long: String,
    /// How many entries the first list has.
    length: i32,
    lists: Vec<String>,
}

impl ListParameters {
    pub(super) fn new(lists: Vec<Vec<ListEntry>>) -> Self {
        let texts = lists.iter().flatten().flat_map(ListEntry::texts);
        let marks = marks(texts);
        let (mut bytes, mut long) = (Vec::new(), Vec::new());
        let mut list = |entries: Vec<ListEntry>| {
            let entries = entries.into_iter();
            let entries = entries.map(|entry| encode(entry, &marks, &mut bytes, &mut long));
            Json::Array(entries.collect()).to_string()
        };
        let length = lists.first().map_or(0, Vec::len);
        let lists = lists.into_iter().map(&mut list).collect();
        Self {
            marks,
            bytes,
            long: Json::Array(long).to_string(),
            length: i32::try_from(length).unwrap_or(i32::MAX),
            lists,
        }
    }

    pub(super) fn parameters(&self) -> Vec<&dyn ToSql> {
        let lists = self.lists.iter().map(|list| list as &dyn ToSql);
        let fixed: [&dyn ToSql; FIRST_LIST - 1] =
            [&self.marks, &ESCAPED, &self.bytes, &self.long, &self.length];
        fixed.into_iter().chain(lists).collect()
    }
}

/// Returns characters that none of the texts has; where there are none, each escaped character stands for itself.
fn marks<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut taken = vec![false; MARK_SETS as usize];
    for character in texts.flat_map(str::chars) {
        let window = u32::from(character).checked_sub(PRIVATE_USE_START);
        let window = window.and_then(|offset| taken.get_mut((offset / ESCAPED_COUNT) as usize));
        if let Some(taken) = window {
            *taken = true;
        }
    }
    let free = (0..MARK_SETS)
        .zip(taken)
        .find(|(_, taken)| !taken)
        .map(|(window, _)| PRIVATE_USE_START + window * ESCAPED_COUNT);
    match free {
        Some(first) => (first..first + ESCAPED_COUNT)
            .filter_map(char::from_u32)
            .collect(),
        None => ESCAPED.to_owned(),
    }
}

fn encode(entry: ListEntry, marks: &str, bytes: &mut Vec<u8>, long: &mut Vec<Json>) -> Json {
    let fields = entry.0.into_iter().map(|(name, field)| {
        let json = match field {
            EntryValue::Long(text) => {
                long.push(mark(text, marks).into());
                return (format!("{name}l"), json!(long.len() - 1));
            }
            EntryValue::Json(Json::String(text)) => Json::String(mark(text, marks)),
            EntryValue::Json(json) => json,
            EntryValue::Bytes(value) => {
                let start = bytes.len() + 1;
                bytes.extend_from_slice(&value);
                json!([start, value.len()])
            }
        };
        (name, json)
    });
    Json::Object(fields.collect::<Map<String, Json>>())
}

fn mark(text: String, marks: &str) -> String {
    if !text.contains(|character| ESCAPED.contains(character)) {
        return text;
    }
    let mark = |character| {
        let mut pairs = ESCAPED.chars().zip(marks.chars());
        let pair = pairs.find(|(escaped, _)| *escaped == character);
        pair.map_or(character, |(_, mark)| mark)
    };
    text.chars().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(texts: &[&str]) -> (ListParameters, Vec<ListEntry>) {
        let entries = || {
            let entry = |text: &&str| ListEntry(vec![("x".to_owned(), json!(text).into())]);
            texts.iter().map(entry).collect::<Vec<_>>()
        };
        (ListParameters::new(vec![entries()]), entries())
    }

    #[test]
    fn there_is_a_mark_for_each_escape() {
        assert_eq!(ESCAPED.chars().count(), ESCAPED_COUNT as usize);
        assert_eq!(sent(&[]).0.marks.chars().count(), ESCAPED_COUNT as usize);
    }

    #[test]
    fn json_has_nothing_to_escape_in_a_marked_text() {
        let all: String = (1..0x80).filter_map(char::from_u32).collect();
        let (wire, _) = sent(&[&all]);
        assert!(!wire.lists[0].contains('\\'));
    }

    #[test]
    fn the_marks_are_characters_that_no_text_has() {
        let texts = ["\u{e000}", "\u{e021}\u{e042}", "a \"b\""];
        let (wire, entries) = sent(&texts);
        for text in entries.iter().flat_map(ListEntry::texts) {
            assert!(!text.contains(|character| wire.marks.contains(character)));
        }
        assert!(wire.lists[0].contains(&wire.marks.chars().next().expect("marks").to_string()));
    }

    #[test]
    fn where_every_mark_is_in_use_json_escapes_as_ever() {
        let all: String = (PRIVATE_USE_START..0xF900)
            .filter_map(char::from_u32)
            .collect();
        let (wire, _) = sent(&[&all, "\""]);
        assert_eq!(wire.marks, ESCAPED);
        assert!(wire.lists[0].contains("\\\""));
    }

    #[test]
    fn a_binary_value_is_its_place_among_the_bytes() {
        let mut entry = ListEntry::default();
        entry.insert("a", EntryValue::Bytes(vec![1, 2]));
        entry.insert("b", EntryValue::Bytes(Vec::new()));
        entry.insert("c", EntryValue::Bytes(vec![3]));
        let wire = ListParameters::new(vec![vec![entry]]);
        assert_eq!(wire.bytes, [1, 2, 3]);
        assert_eq!(wire.lists[0], r#"[{"a":[1,2],"b":[3,0],"c":[3,1]}]"#);
    }
}
