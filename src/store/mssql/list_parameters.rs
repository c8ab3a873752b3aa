//! Parameters of statements that take lists. Each list travels as one JSON array, which `OPENJSON` reads on the server.
//!
//! Each such statement has the same first parameters: @P1 and @P2 are [`ListParameters::escape_marks`] and the
//! characters that they stand for, @P3 is the bytes of all binary values, @P4 is a JSON array of long texts, and @P5 is
//! the length of the first list. The lists begin at @P6.
//!
//! JSON alone would be enough for SQL Server. Babelfish has three limits. Its `OPENJSON` leaves the escapes of a string
//! as they are, and it cuts off a string after [`MAX_INLINE_UNITS`]. Its `CONVERT` reads no hexadecimal digits.
//! Therefore:
//! - A text holds a mark instead of each character that JSON escapes. The statement replaces the marks with
//!   `TRANSLATE`.
//! - A binary value is a pair: its start among the bytes of @P3, from 1, and its length.
//! - A long text is its index in @P4, from 0.

use serde_json::{Map, Value as Json, json};
use tiberius::ToSql;

/// The characters that JSON escapes, except NUL: a text in Babelfish cannot contain it.
const ESCAPED: &str = "\"\\\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{e}\u{f}\u{10}\u{11}\u{12}\u{13}\
    \u{14}\u{15}\u{16}\u{17}\u{18}\u{19}\u{1a}\u{1b}\u{1c}\u{1d}\u{1e}\u{1f}";
/// Number of characters in [`ESCAPED`]. Each of them, and each mark, is one UTF-16 unit.
const ESCAPED_COUNT: u32 = 33;
/// First character of the private use area in Unicode's first plane. The marks are chosen there.
const PRIVATE_USE_START: u32 = 0xE000;
/// First character after the private use area.
const PRIVATE_USE_END: u32 = 0xF900;
/// Number of disjoint sets of marks in the private use area.
const MARK_SETS: u32 = (PRIVATE_USE_END - PRIVATE_USE_START) / ESCAPED_COUNT;

/// Number of the parameters that hold marks: @P1 and @P2.
pub(super) const MARK_PARAMETERS: usize = 2;
/// Number of the parameter that holds the first list.
pub(super) const FIRST_LIST: usize = 6;
/// Maximum length of a text inside a list, in UTF-16 units. Longer texts travel in @P4.
pub(super) const MAX_INLINE_UNITS: usize = 4_000;

/// Renders the expression that replaces the marks in a text. The binary collation compares by code point. A linguistic
/// collation has no weight for the marks and would not find them.
pub(super) fn unescape_sql(name: &str) -> String {
    format!("TRANSLATE({name} COLLATE Latin1_General_100_BIN2, @P1, @P2)")
}

/// A value in an entry of a list.
pub(super) enum EntryValue {
    Json(Json),
    Bytes(Vec<u8>),
    /// A text of more than [`MAX_INLINE_UNITS`]. Its index is stored under the name of the value followed by `l`.
    Long(String),
}

impl From<Json> for EntryValue {
    fn from(json: Json) -> Self {
        Self::Json(json)
    }
}

/// An entry of a list: names and values.
#[derive(Default)]
pub(super) struct ListEntry(Vec<(String, EntryValue)>);

impl ListEntry {
    pub(super) fn insert(&mut self, name: impl Into<String>, value: impl Into<EntryValue>) {
        self.0.push((name.into(), value.into()));
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|(_, value)| match value {
            EntryValue::Json(Json::String(text)) | EntryValue::Long(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

/// The encoded lists of one statement.
pub(super) struct ListParameters {
    escape_marks: String,
    bytes: Vec<u8>,
    long_texts: String,
    first_list_length: i32,
    lists: Vec<String>,
}

impl ListParameters {
    pub(super) fn new(lists: Vec<Vec<ListEntry>>) -> Self {
        let texts = lists.iter().flatten().flat_map(ListEntry::texts);
        let escape_marks = choose_marks(texts);
        let first_list_length = lists.first().map_or(0, Vec::len);
        let (mut bytes, mut long_texts) = (Vec::new(), Vec::new());
        let mut encode_list = |entries: Vec<ListEntry>| {
            let entries = entries
                .into_iter()
                .map(|entry| encode_entry(entry, &escape_marks, &mut bytes, &mut long_texts));
            Json::Array(entries.collect()).to_string()
        };
        let lists = lists.into_iter().map(&mut encode_list).collect();
        Self {
            escape_marks,
            bytes,
            long_texts: Json::Array(long_texts).to_string(),
            first_list_length: i32::try_from(first_list_length).unwrap_or(i32::MAX),
            lists,
        }
    }

    /// Returns the parameters of the same statement without entries in its lists.
    pub(super) fn without_entries(&self) -> Self {
        Self::new(self.lists.iter().map(|_| Vec::new()).collect())
    }

    /// Returns the parameters in the order of their numbers.
    pub(super) fn parameters(&self) -> Vec<&dyn ToSql> {
        let lists = self.lists.iter().map(|list| list as &dyn ToSql);
        let fixed: [&dyn ToSql; FIRST_LIST - 1] = [
            &self.escape_marks,
            &ESCAPED,
            &self.bytes,
            &self.long_texts,
            &self.first_list_length,
        ];
        fixed.into_iter().chain(lists).collect()
    }

    /// Returns these parameters, followed by others.
    pub(super) fn and<'a>(&'a self, others: &[&'a dyn ToSql]) -> Vec<&'a dyn ToSql> {
        [&*self.parameters(), others].concat()
    }
}

/// Returns a set of marks that occur in none of the texts. If the texts use every set, each escaped character is its
/// own mark, and JSON escapes it as usual.
fn choose_marks<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut used = vec![false; MARK_SETS as usize];
    for character in texts.flat_map(str::chars) {
        let offset = u32::from(character).checked_sub(PRIVATE_USE_START);
        let used = offset.and_then(|offset| used.get_mut((offset / ESCAPED_COUNT) as usize));
        if let Some(used) = used {
            *used = true;
        }
    }
    let free = (0..MARK_SETS)
        .zip(used)
        .find(|(_, used)| !used)
        .map(|(set, _)| PRIVATE_USE_START + set * ESCAPED_COUNT);
    match free {
        Some(first) => (first..first + ESCAPED_COUNT)
            .filter_map(char::from_u32)
            .collect(),
        None => ESCAPED.to_owned(),
    }
}

fn encode_entry(
    entry: ListEntry,
    escape_marks: &str,
    bytes: &mut Vec<u8>,
    long_texts: &mut Vec<Json>,
) -> Json {
    // A field that is NULL is left out. Babelfish gives a null where a binary value's pair is expected the value of the next
    // entry.
    let is_set = |(_, value): &(String, EntryValue)| !matches!(value, EntryValue::Json(Json::Null));
    let fields = entry.0.into_iter().filter(is_set).map(|(name, value)| {
        let json = match value {
            EntryValue::Long(text) => {
                long_texts.push(escape(text, escape_marks).into());
                return (format!("{name}l"), json!(long_texts.len() - 1));
            }
            EntryValue::Json(Json::String(text)) => Json::String(escape(text, escape_marks)),
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

/// Replaces each character of [`ESCAPED`] with its mark.
fn escape(text: String, escape_marks: &str) -> String {
    if !text.contains(|character| ESCAPED.contains(character)) {
        return text;
    }
    let escape = |character| {
        let mut pairs = ESCAPED.chars().zip(escape_marks.chars());
        let pair = pairs.find(|(escaped, _)| *escaped == character);
        pair.map_or(character, |(_, mark)| mark)
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(texts: &[&str]) -> (ListParameters, Vec<ListEntry>) {
        let entries = || {
            let entry = |text: &&str| ListEntry(vec![("x".to_owned(), json!(text).into())]);
            texts.iter().map(entry).collect::<Vec<_>>()
        };
        (ListParameters::new(vec![entries()]), entries())
    }

    #[test]
    fn each_escaped_character_has_a_mark() {
        assert_eq!(ESCAPED.chars().count(), ESCAPED_COUNT as usize);
        assert_eq!(
            encode(&[]).0.escape_marks.chars().count(),
            ESCAPED_COUNT as usize
        );
    }

    #[test]
    fn texts_with_marks_need_no_json_escapes() {
        let all: String = (1..0x80).filter_map(char::from_u32).collect();
        let (parameters, _) = encode(&[&all]);
        assert!(!parameters.lists[0].contains('\\'));
    }

    #[test]
    fn marks_do_not_occur_in_the_texts() {
        let texts = ["\u{e000}", "\u{e021}\u{e042}", "a \"b\""];
        let (parameters, entries) = encode(&texts);
        for text in entries.iter().flat_map(ListEntry::texts) {
            assert!(!text.contains(|character| parameters.escape_marks.contains(character)));
        }
        assert!(
            parameters.lists[0].contains(
                &parameters
                    .escape_marks
                    .chars()
                    .next()
                    .expect("marks")
                    .to_string()
            )
        );
    }

    #[test]
    fn json_escapes_texts_that_use_every_mark() {
        let all: String = (PRIVATE_USE_START..PRIVATE_USE_END)
            .filter_map(char::from_u32)
            .collect();
        let (parameters, _) = encode(&[&all, "\""]);
        assert_eq!(parameters.escape_marks, ESCAPED);
        assert!(parameters.lists[0].contains("\\\""));
    }

    #[test]
    fn binary_values_become_start_and_length() {
        let mut entry = ListEntry::default();
        entry.insert("a", EntryValue::Bytes(vec![1, 2]));
        entry.insert("b", EntryValue::Bytes(Vec::new()));
        entry.insert("c", EntryValue::Bytes(vec![3]));
        let parameters = ListParameters::new(vec![vec![entry]]);
        assert_eq!(parameters.bytes, [1, 2, 3]);
        assert_eq!(parameters.lists[0], r#"[{"a":[1,2],"b":[3,0],"c":[3,1]}]"#);
    }
}
