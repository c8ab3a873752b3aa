//! Quoted identifiers and literals of `SQLite`.

use lease_broker_model::key::hex;
use lease_broker_value::Value;

/// Quotes an identifier, in the way of `MySQL`.
///
/// SQLite reads a name in the quotes of the SQL standard as a text if no column has the name. A column that another program renames
/// while a broker runs would then have its own name as the value of every row. SQLite can be told not to do so, but then it also
/// refuses triggers of the table that have a text in such quotes.
pub(super) fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Returns a statement with the quotes of the SQL standard around its identifiers: for definitions, which the database keeps, and for
/// people.
pub(super) fn with_standard_quotes(sql: &str) -> String {
    let mut standard = String::with_capacity(sql.len());
    let mut characters = sql.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\'' | '"' => {
                standard.push(character);
                for inner in characters.by_ref() {
                    standard.push(inner);
                    if inner == character {
                        break;
                    }
                }
            }
            '`' => {
                let mut name = String::new();
                while let Some(inner) = characters.next() {
                    if inner == '`' && characters.next_if_eq(&'`').is_none() {
                        break;
                    }
                    name.push(inner);
                }
                standard.push('"');
                standard.push_str(&name.replace('"', "\"\""));
                standard.push('"');
            }
            other => standard.push(other),
        }
    }
    standard
}

/// Quotes identifiers and joins them with commas.
pub(super) fn quote_all<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(quote).collect();
    quoted.join(", ")
}

/// Renders a name as a text literal.
pub(super) fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Renders a value of the configuration as a literal.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Bool(bool) => i64::from(*bool).to_string(),
        Value::Int(int) => int.to_string(),
        Value::Double(double) => format!("{double:?}"),
        Value::Text(text) | Value::Decimal(text) => text_literal(text),
        Value::Bytes(bytes) => format!("x'{}'", hex(bytes)),
        Value::Null | Value::Timestamp { .. } => "NULL".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_have_standard_quotes() {
        for (name, standard) in [
            ("a", r#""a""#),
            ("a`b", r#""a`b""#),
            (r#"a"b'"#, r#""a""b'""#),
            ("`", r#""`""#),
        ] {
            let sql = format!("SELECT {} FROM x WHERE y = 'it''s `' \"`\"", quote(name));
            let expected = format!("SELECT {standard} FROM x WHERE y = 'it''s `' \"`\"");
            assert_eq!(with_standard_quotes(&sql), expected);
        }
    }
}
