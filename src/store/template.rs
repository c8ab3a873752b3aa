//! Renders the statements of `sql/`: templates whose only placeholders are quoted identifiers, column lists and literals
//! from the configuration.

use std::collections::HashMap;

/// The values of the placeholders, by name.
pub(super) type Placeholders = HashMap<&'static str, String>;

/// Returns one section of a file, its comments left out and its placeholders filled.
///
/// # Panics
/// If the file has no such section or the section a placeholder that is not filled: both are compiled in and rendered by every
/// test that opens a store.
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
    fill(template.trim_end(), placeholders)
}

fn fill(template: &str, placeholders: &Placeholders) -> String {
    let mut out = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').expect("a placeholder ends");
        out.push_str(before);
        out.push_str(
            placeholders
                .get(name)
                .unwrap_or_else(|| panic!("nothing fills {{{name}}}")),
        );
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
    fn a_name_with_braces_and_quotes_is_an_identifier_and_never_a_placeholder() {
        let placeholders = Placeholders::from([("table", quote("a\"{key}")), ("key", quote("k"))]);
        let file = "-- about\n-- :: one\n-- comment\nSELECT {key}\nFROM {table}\n\n-- :: two\nX";
        assert_eq!(
            render(file, "one", &placeholders),
            "SELECT \"k\"\nFROM \"a\"\"{key}\""
        );
    }
}
