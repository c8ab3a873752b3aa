//! SQL for the size of an item in a response, before the item is leased. It estimates the same size as [`ItemSize`].

use lease_broker_model::key::Key;

use super::catalogue::{Column, UTF_8};
use super::quote::quote;
use super::server_info::TextBytes;
use super::types::ColumnType;
use super::value_limits::split_sizes;
use crate::ItemSize;
use crate::queue_columns::QueueColumns;

/// The size of the items of a queue, as SQL about the row `t`.
pub(super) struct ItemBytes {
    /// An upper bound of the size. Its evaluation reads no long value.
    pub(super) bound: String,
    /// The size. `None`: the bound is the size.
    pub(super) exact: Option<String>,
    /// The largest size that the types of the columns allow, in bytes. `None`: a column has no limit.
    pub(super) max: Option<usize>,
}

/// The part of one column in the size.
struct Part {
    bound: String,
    exact: String,
    max: Option<usize>,
}

impl ItemBytes {
    pub(super) fn new(
        columns: &QueueColumns<ColumnType>,
        item_size: ItemSize,
        text_bytes: TextBytes,
    ) -> Self {
        let mut fixed = item_size.of_stored(&Key(Box::default()), 0);
        let mut parts: Vec<Part> = Vec::new();
        for column in &columns.data {
            fixed += fixed_bytes(column.kind);
            parts.extend(data_part(column, text_bytes));
        }
        for column in &columns.key {
            // The key is in the response twice: as text, and in the lease id as base64.
            fixed += fixed_bytes(column.kind) * 7 / 3 + 64;
            parts.extend(key_part(column, text_bytes));
        }
        let sum = |part: &dyn Fn(&Part) -> String| {
            let parts = parts.iter().map(|each| format!(" + {}", part(each)));
            format!("{fixed}{}", parts.collect::<String>())
        };
        let (bound, exact) = (
            sum(&|part| part.bound.clone()),
            sum(&|part| part.exact.clone()),
        );
        let max = parts.iter().map(|part| part.max);
        Self {
            max: max.sum::<Option<usize>>().map(|sum| fixed + sum),
            exact: (exact != bound).then_some(exact),
            bound,
        }
    }
}

/// Returns the bytes of a value of a type with values of limited size, beyond those that [`ItemSize`] counts.
fn fixed_bytes(kind: ColumnType) -> usize {
    match kind {
        ColumnType::Decimal | ColumnType::Money | ColumnType::Guid => 40,
        ColumnType::DateTime | ColumnType::DateTimeOffset | ColumnType::Date | ColumnType::Time => {
            20
        }
        _ => 0,
    }
}

fn data_part(column: &Column, text_bytes: TextBytes) -> Option<Part> {
    let value = format!("t.{}", quote(&column.name));
    let utf16 = format!("CONVERT(nvarchar(max), {value})");
    let length = |value: &str| format!("COALESCE(DATALENGTH({value}), 0)");
    let declared = declared_length(column);
    let (value, factor) = match column.kind {
        ColumnType::Binary => {
            return Some(Part {
                bound: length(&value),
                exact: length(&value),
                max: declared,
            });
        }
        ColumnType::Xml | ColumnType::Json => (utf16.clone(), "* 3 / 2"),
        ColumnType::Text if column.declared.starts_with('n') || column.declared == "sysname" => {
            (value, "* 3 / 2")
        }
        ColumnType::Text if column.code_page == Some(UTF_8) => (value, ""),
        ColumnType::Text => (value, "* 3"),
        _ => return None,
    };
    let bound = match text_bytes {
        TextBytes::Length => length(&value),
        _ if factor.is_empty() => length(&value),
        _ => format!("COALESCE(CONVERT(bigint, DATALENGTH({value})) {factor}, 0)"),
    };
    let exact = match text_bytes {
        TextBytes::Length => bound.clone(),
        _ if factor.is_empty() => bound.clone(),
        TextBytes::Conversion => length(&format!(
            "CONVERT(varchar(max), {utf16} COLLATE Latin1_General_100_BIN2_UTF8)"
        )),
        TextBytes::Unknown => length(&utf16),
    };
    Some(Part {
        bound,
        exact,
        // A character has at most 3 bytes for each of its units.
        max: declared.map(|length| length * 3),
    })
}

/// Returns the bytes of a column of the key, which is short, so that its bound is good enough.
fn key_part(column: &Column, text_bytes: TextBytes) -> Option<Part> {
    // Bytes are written in hexadecimal.
    let factor = if column.kind == ColumnType::Binary {
        4
    } else {
        3
    };
    let part = data_part(column, text_bytes)?;
    let bound = format!("{} * {factor}", part.bound);
    Some(Part {
        exact: bound.clone(),
        bound,
        max: part.max.map(|max| max * factor),
    })
}

/// Returns the number in the parentheses of the column's type. `None`: the type has no limit.
fn declared_length(column: &Column) -> Option<usize> {
    if column.declared == "sysname" {
        return Some(128);
    }
    let (_, [length, _]) = split_sizes(&column.declared);
    length.map(|length| length as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(declared: &str, text_bytes: TextBytes) -> Part {
        let column = Column {
            name: "c".to_owned(),
            declared: declared.to_owned(),
            ..Column::of_type(declared.split('(').next().unwrap_or_default())
        };
        data_part(&column, text_bytes).expect("a part")
    }

    #[test]
    fn limits_of_types_become_bytes() {
        for (declared, max) in [
            ("nvarchar(40)", Some(120)),
            ("varchar(40)", Some(120)),
            ("varbinary(40)", Some(40)),
            ("nvarchar(max)", None),
            ("varbinary(max)", None),
            ("xml", None),
            ("ntext", None),
        ] {
            assert_eq!(part(declared, TextBytes::Conversion).max, max, "{declared}");
        }
    }

    #[test]
    fn only_texts_in_other_encodings_are_converted() {
        let text = part("nvarchar(max)", TextBytes::Conversion);
        assert!(text.exact.contains("UTF8") && !text.bound.contains("UTF8"));
        let bytes = part("varbinary(max)", TextBytes::Conversion);
        assert_eq!(bytes.exact, bytes.bound);
        let babelfish = part("nvarchar(max)", TextBytes::Length);
        assert_eq!(babelfish.exact, babelfish.bound);
    }
}
