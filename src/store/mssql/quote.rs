//! Identifiers and literals as T-SQL writes them.

use crate::value::{Value, hex};

/// Quotes an identifier. Where a bracket would have to be doubled it is quotation marks, which the session's
/// `QUOTED_IDENTIFIER` allows: Babelfish does not read the other form.
pub(super) fn quote(name: &str) -> String {
    if name.contains(']') {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        format!("[{name}]")
    }
}

/// Quotes a table's name, which may be prefixed with its schema: `schema.table`, `[my schema].[my.table]`.
pub(super) fn quote_table(name: &str) -> String {
    let parts: Vec<String> = table_parts(name).iter().map(|part| quote(part)).collect();
    parts.join(".")
}

/// Returns the table's own name.
pub(super) fn bare_table(name: &str) -> String {
    table_parts(name).pop().unwrap_or_default()
}

/// Splits a table's name at its first dot outside brackets; a name that is not written so is taken as it is.
fn table_parts(name: &str) -> Vec<String> {
    let split = || {
        let (schema, table) = if let Some(inner) = name.strip_prefix('[') {
            let end = closing(inner)?;
            let schema = inner[..end].replace("]]", "]");
            match &inner[end + 1..] {
                "" => return Some(vec![schema]),
                rest => (schema, rest.strip_prefix('.')?),
            }
        } else {
            let (schema, table) = name.split_once('.')?;
            (schema.to_owned(), table)
        };
        let inner = table
            .strip_prefix('[')
            .and_then(|table| table.strip_suffix(']'));
        let table = inner.map_or_else(|| table.to_owned(), |inner| inner.replace("]]", "]"));
        (!schema.is_empty() && !table.is_empty()).then(|| vec![schema, table])
    };
    split().unwrap_or_else(|| vec![name.to_owned()])
}

/// Returns where the bracket closes that was open before `inner`.
fn closing(inner: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += inner[at..].find(']')?;
        if !inner[at + 1..].starts_with(']') {
            return Some(at);
        }
        at += 2;
    }
}

/// Renders a value of the configuration as a literal.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Bool(bool) => i64::from(*bool).to_string(),
        Value::Int(int) => int.to_string(),
        Value::Double(double) => format!("{double:e}"),
        Value::Decimal(digits) => digits.clone(),
        Value::Text(text) => format!("N'{}'", text.replace('\'', "''")),
        Value::Bytes(bytes) => format!("0x{}", hex(bytes)),
        Value::Null | Value::Timestamp { .. } => "NULL".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_may_be_named_with_its_schema_and_with_brackets() {
        for (name, quoted) in [
            ("Events", "[Events]"),
            ("dbo.Events", "[dbo].[Events]"),
            ("[my schema].[a.b]]c]", "[my schema].\"a.b]c\""),
            ("sales.[a.b]", "[sales].[a.b]"),
            ("[a.b]", "[a.b]"),
            ("a]b", "\"a]b\""),
            ("[", "[[]"),
        ] {
            assert_eq!(quote_table(name), quoted, "{name}");
        }
    }
}
