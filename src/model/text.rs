//! Text that others wrote, made safe to show.
//!
//! Worker ids, error texts and columns can hold any character. Some characters act on a terminal instead of being shown:
//! they move the cursor, change the direction of the text, forge a line, or are invisible. Everything that this program
//! prints or logs comes through here, so that these characters appear as escapes such as `\u{1b}`.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Returns whether a terminal would act on the character or show nothing for it: controls, line and paragraph separators,
/// marks of direction, characters without width, and tags.
pub fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Returns the text with each hidden character as `\u{…}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    replace(text, is_hidden)
}

/// Does the same as [`visible`] and keeps the ends of lines and tabs, for a text of several lines.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    replace(text, |character| {
        is_hidden(character) && !matches!(character, '\n' | '\t')
    })
}

/// Returns a text for one cell of a table. A backslash is doubled too, so that two different texts never look alike.
pub fn cell(text: &str) -> Cow<'_, str> {
    if text.contains('\\') {
        Cow::Owned(visible(&text.replace('\\', r"\\")).into_owned())
    } else {
        visible(text)
    }
}

/// Returns the text of a key for one cell of a table. A command takes it as the key of the same item, unless it is no JSON array and
/// has hidden characters.
pub fn key_cell(key: &str) -> Cow<'_, str> {
    if serde_json::from_str::<Vec<serde_json::Value>>(key).is_ok() {
        visible_json(key)
    } else if key.contains(is_hidden) {
        cell(key)
    } else {
        Cow::Borrowed(key)
    }
}

/// Escapes the hidden characters of a JSON text. The result is JSON of the same value. A serializer escapes only those
/// below U+0020.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    if !json.contains(|character| is_hidden(character) && character > '\u{1f}') {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_hidden(character) && character > '\u{1f}' {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

fn replace(text: &str, is_replaced: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_replaced(character) {
            escaped.extend(character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// A name that a caller sent, in quotation marks and escaped. It is cut before it is formatted: each character of a long
/// name could become ten.
pub struct Quoted<'a>(pub &'a str);

/// The maximum number of characters of a quoted name.
const MAX_NAME: usize = 256;

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match end_of_name(self.0) {
            None => write!(out, "{:?}", self.0),
            Some(end) => write!(out, "{:?}…", &self.0[..end]),
        }
    }
}

/// Returns a name as the value of a field of the log, cut as [`Quoted`] cuts it. The log quotes and escapes it as its format needs.
pub fn log_field(name: &str) -> Cow<'_, str> {
    match end_of_name(name) {
        None => Cow::Borrowed(name),
        Some(end) => Cow::Owned(format!("{}…", &name[..end])),
    }
}

/// Returns the place at which a long name is cut.
fn end_of_name(name: &str) -> Option<usize> {
    name.char_indices().nth(MAX_NAME).map(|(end, _)| end)
}

/// Writes at most this number of characters, with the hidden ones as `\u{…}`, and then an ellipsis.
///
/// A value that is formatted through it is cut while it is formatted, and not after that: it can be megabytes long.
pub struct Visible<'a> {
    out: &'a mut dyn Write,
    left: usize,
}

impl<'a> Visible<'a> {
    /// Writes up to `max_characters` to `out`.
    pub fn new(out: &'a mut dyn Write, max_characters: usize) -> Self {
        Self {
            out,
            left: max_characters,
        }
    }

    /// Formats a value. The value's own errors are ignored: what it has written until then is shown.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn write(mut self, value: fmt::Arguments<'_>) -> fmt::Result {
        let complete = self.write_fmt(value).is_ok();
        if complete || self.left > 0 {
            return Ok(());
        }
        self.out.write_char('…')
    }
}

impl Write for Visible<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.char_indices().nth(self.left).map(|(index, _)| index);
        let shown = &text[..end.unwrap_or(text.len())];
        self.left -= shown.chars().count();
        self.out.write_str(&visible(shown))?;
        // The error ends the formatting of the value.
        end.map_or(Ok(()), |_| Err(fmt::Error))
    }
}

/// Quotes a text for a shell if a shell would change it. Hidden characters are escaped.
pub fn shell_word(text: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-=.:/,@%+".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", visible(text).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NASTY: &str = "a\u{1b}[2J\u{7}\r\n\u{9b}31m\u{202e}b\u{200b}\u{e0041}\\";

    fn written(text: &str, max_characters: usize) -> String {
        let mut out = String::new();
        let visible = Visible::new(&mut out, max_characters);
        visible.write(format_args!("{text}")).expect("a string");
        out
    }

    #[test]
    fn characters_that_act_on_a_terminal_are_escaped() {
        let escaped = r"a\u{1b}[2J\u{7}\u{d}\u{a}\u{9b}31m\u{202e}b\u{200b}\u{e0041}\";
        assert_eq!(visible(NASTY), escaped);
        assert_eq!(cell(NASTY), format!(r"{escaped}\"));
        assert_eq!(visible_lines("a\n\tb\r"), "a\n\tb\\u{d}");
        assert_eq!(written(NASTY, 100), escaped);
        assert!(matches!(visible("Grüße 日本 🙂 a\\b"), Cow::Borrowed(_)));
    }

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert_eq!(shell_word("work"), "work");
        assert_eq!(shell_word("my orders"), "'my orders'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }

    #[test]
    fn long_name_is_cut_before_it_is_escaped() {
        assert_eq!(Quoted("a\u{1b}").to_string(), "\"a\\u{1b}\"");
        let long = Quoted(&"\u{200b}".repeat(100_000)).to_string();
        assert!(long.len() < 4_000 && long.ends_with('…'), "{long}");
    }

    #[test]
    fn long_value_is_cut_while_it_is_formatted() {
        assert_eq!(written("abcdef", 3), "abc…");
        assert_eq!(written("abc", 3), "abc");
        assert_eq!(written("\u{1b}bc", 1), "\\u{1b}…");
    }

    proptest! {
        #[test]
        fn no_hidden_character_is_left(text in ".*|[\\x00-\\x{206f}]{0,40}") {
            prop_assert!(!visible(&text).contains(is_hidden));
            prop_assert!(!cell(&text).contains(is_hidden));
            prop_assert!(!written(&text, 20).contains(is_hidden));
        }

        #[test]
        fn different_texts_have_different_cells(
            one in "[\\\\u{}1b\\x1b]{0,9}",
            other in "[\\\\u{}1b\\x1b]{0,9}",
        ) {
            prop_assert_eq!(cell(&one) == cell(&other), one == other);
        }

        #[test]
        fn cell_of_a_composite_key_is_the_key(text in ".*|[\\x00-\\x{206f}]{0,40}") {
            let key = serde_json::json!([7, text]).to_string();
            let cell = key_cell(&key);
            prop_assert!(!cell.contains(is_hidden));
            let read: serde_json::Value = serde_json::from_str(&cell).expect("JSON");
            prop_assert_eq!(read.to_string(), key);
            prop_assert!(!key_cell(&text).contains(is_hidden));
        }

        #[test]
        fn json_keeps_its_value(text in ".*|[\\x00-\\x{206f}]{0,40}|[\\x{e0000}-\\x{e007f}]{1,3}") {
            let json = serde_json::to_string(&text).expect("a string");
            let visible = visible_json(&json);
            prop_assert!(!visible.contains(is_hidden));
            prop_assert_eq!(serde_json::from_str::<String>(&visible).expect("JSON"), text);
        }
    }
}
