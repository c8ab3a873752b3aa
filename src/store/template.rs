//! Renders the SQL statements in `sql/` from their templates.
//!
//! A template is a section of a file: the lines after `-- :: NAME`, up to the next such line. A placeholder such as
//! `{table}` stands for quoted identifiers, lists of columns, or literals from the configuration. Values that a client
//! sends never become part of the SQL text; they are bound as parameters.

use std::collections::HashMap;

/// The SQL text for each placeholder, by the placeholder's name.
pub(super) type Placeholders = HashMap<&'static str, String>;

/// Returns the statement in section `section` of `file`, without its comments and empty lines and with each placeholder
/// replaced.
///
/// # Panics
/// If the file has no such section, or if `placeholders` has no text for one that the section uses. Both are errors in
/// this program: the files are compiled in, and every test that opens a store renders its statements.
pub(super) fn render(file: &str, section: &str, placeholders: &Placeholders) -> String {
    let marker = format!("-- :: {section}\n");
    let (_, after) = file
        .split_once(&marker)
        .unwrap_or_else(|| panic!("no section {section}"));
    let mut template = String::new();
    for line in after.lines().take_while(|line| !line.starts_with("-- ::")) {
        if !line.starts_with("--") && !line.is_empty() {
            template.push_str(line);
            template.push('\n');
        }
    }
    substitute(template.trim_end(), placeholders)
}

/// Returns the statement in a section that has no placeholder, as [`render`] does.
pub(super) fn plain(file: &str, section: &str) -> String {
    render(file, section, &Placeholders::new())
}

/// Replaces each placeholder once. Braces in the inserted text, as a quoted identifier can have them, stay as they are.
fn substitute(template: &str, placeholders: &Placeholders) -> String {
    let mut out = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after
            .split_once('}')
            .expect("a placeholder ends with a brace");
        let text = placeholders
            .get(name)
            .unwrap_or_else(|| panic!("no text for placeholder {{{name}}}"));
        out.extend([before, text]);
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quote(name: &str) -> String {
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    #[test]
    fn braces_in_an_identifier_are_not_a_placeholder() {
        let placeholders = Placeholders::from([("table", quote("a\"{key}")), ("key", quote("k"))]);
        let file = "-- about\n-- :: one\n-- comment\nSELECT {key}\nFROM {table}\n\n-- :: two\nX";
        assert_eq!(
            render(file, "one", &placeholders),
            "SELECT \"k\"\nFROM \"a\"\"{key}\""
        );
    }
}
