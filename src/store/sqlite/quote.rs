//! Identifiers as SQLite quotes them.

/// Quotes an identifier.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes identifiers and joins them with commas.
pub(super) fn quote_all<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(quote).collect();
    quoted.join(", ")
}
