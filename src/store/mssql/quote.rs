//! Quoted identifiers and literals of T-SQL.

use lease_broker_model::key::hex;
use lease_broker_value::Value;

/// Quotes an identifier with brackets. A name that contains a closing bracket is quoted with quotation marks instead, because
/// Babelfish does not read a doubled bracket. The session's `QUOTED_IDENTIFIER` allows the quotation marks.
pub(super) fn quote(name: &str) -> String {
    if name.contains(']') {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        format!("[{name}]")
    }
}

/// Quotes a table's name. It may start with a schema: `schema.table`, `[my schema].[my.table]`.
pub(super) fn quote_table(name: &str) -> String {
    let parts: Vec<String> = table_parts(name).iter().map(|part| quote(part)).collect();
    parts.join(".")
}

/// Returns a table's name without its schema and without brackets.
pub(super) fn bare_table(name: &str) -> String {
    table_parts(name).pop().unwrap_or_default()
}

/// Splits a table's name into schema and table at its first dot outside brackets. If the name does not have this form, it is
/// the table's name as a whole.
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

/// Returns the index of the bracket that closes the one before `inner`. A doubled bracket does not close it.
fn closing(inner: &str) -> Option<usize> {
    let mut index = 0;
    loop {
        index += inner[index..].find(']')?;
        if !inner[index + 1..].starts_with(']') {
            return Some(index);
        }
        index += 2;
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

/// Renders a text as a literal.
pub(super) fn text_literal(text: &str) -> String {
    literal(&Value::Text(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_name_may_have_schema_and_brackets() {
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
