//! An item with which a user can try a queue: texts that fit the types of the columns.

use lease_broker_value::Value;

use super::NewItem;
use super::table::Column;

/// The properties of a column that decide whether and how an example sets it.
pub(super) struct Candidate<'a, Kind> {
    pub(super) column: &'a Column<Kind>,
    /// Whether an item must set the column: it has no default, and is part of the key or cannot be NULL.
    pub(super) is_required: bool,
    /// Whether a rule of the table can refuse a value of the right type: a unique index or a foreign key.
    pub(super) is_restricted: bool,
}

/// Returns the columns that an example sets, with their values: all columns that it must set, or else one. `None`: no value
/// is known for a column.
///
/// `restricted` returns a value for a restricted column that the item must set. `accepts` returns whether the queue accepts the item.
pub(super) fn example<Kind, E>(
    candidates: &[Candidate<'_, Kind>],
    mut restricted: impl FnMut(&Column<Kind>) -> Result<Option<String>, E>,
    accepts: impl Fn(&NewItem) -> bool,
) -> Result<Option<Vec<(String, String)>>, E> {
    let mut columns = Vec::new();
    for candidate in candidates.iter().filter(|candidate| candidate.is_required) {
        let column = candidate.column;
        let value = if candidate.is_restricted {
            restricted(column)?
        } else {
            text_for(&column.declared)
        };
        match value {
            Some(value) => columns.push((column.name.clone(), value)),
            None => return Ok(None),
        }
    }
    if columns.is_empty() {
        let mut free = candidates
            .iter()
            .filter(|candidate| !candidate.is_restricted);
        columns.extend(free.find_map(|candidate| {
            let column = candidate.column;
            Some((column.name.clone(), text_for(&column.declared)?))
        }));
    }
    let texts = columns.iter().cloned();
    let item = NewItem {
        columns: texts
            .map(|(name, text)| (name, Value::Text(text)))
            .collect(),
        ..NewItem::default()
    };
    Ok((!columns.is_empty() && accepts(&item)).then_some(columns))
}

/// Returns a text that a column of this declared type, such as `decimal(5,2)`, can store. `None`: no text is known.
pub(super) fn text_for(declared: &str) -> Option<String> {
    let declared = declared.to_ascii_lowercase();
    let (name, sizes) = declared.split_once('(').unwrap_or((&declared, ""));
    let mut sizes = sizes.trim_end_matches(')').split(',');
    let mut size = || sizes.next()?.trim().parse::<usize>().ok();
    let has = |part: &str| name.contains(part);
    Some(if has("binary") || has("blob") || has("image") {
        return None;
    } else if has("uniqueidentifier") || has("uuid") {
        "6f9619ff-8b86-4011-b42d-00c04fc964ff".to_owned()
    } else if has("datetime") || has("timestamp") {
        "2026-01-31T12:00:00".to_owned()
    } else if has("date") {
        "2026-01-31".to_owned()
    } else if has("time") {
        "12:00:00".to_owned()
    } else if has("xml") {
        "<hello/>".to_owned()
    } else if has("json") {
        "{}".to_owned()
    } else if has("int") || has("bit") || has("bool") {
        "1".to_owned()
    } else if has("dec") || has("num") || has("money") {
        decimal(size().zip(Some(size().unwrap_or(0))))
    } else if has("real") || has("floa") || has("doub") {
        "1.5".to_owned()
    } else {
        "hello".chars().take(size().unwrap_or(usize::MAX)).collect()
    })
}

/// Returns a number of this precision and scale. `None`: the type has no limits.
fn decimal(sizes: Option<(usize, usize)>) -> String {
    let (precision, scale) = sizes.unwrap_or((4, 2));
    let whole = if precision > scale { "1" } else { "0" };
    match scale {
        0 => whole.to_owned(),
        1 => format!("{whole}.5"),
        _ => format!("{whole}.50"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_fits_the_declared_type() {
        for (declared, text) in [
            ("INTEGER", Some("1")),
            ("tinyint", Some("1")),
            ("BOOLEAN", Some("1")),
            ("nvarchar(100)", Some("hello")),
            ("char(2)", Some("he")),
            ("varchar(max)", Some("hello")),
            ("TEXT", Some("hello")),
            ("", Some("hello")),
            ("decimal(5,2)", Some("1.50")),
            ("decimal(2,2)", Some("0.50")),
            ("decimal(5,1)", Some("1.5")),
            ("numeric(5)", Some("1")),
            ("NUMERIC", Some("1.50")),
            ("double precision", Some("1.5")),
            ("date", Some("2026-01-31")),
            ("time(3)", Some("12:00:00")),
            ("datetime2(7)", Some("2026-01-31T12:00:00")),
            ("varbinary(10)", None),
        ] {
            assert_eq!(text_for(declared).as_deref(), text, "{declared}");
        }
    }
}
