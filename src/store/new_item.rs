//! Checks of a new item's columns and values, the same in every store.

use std::collections::HashMap;

use super::NewItem;

/// Returns the table's column for the item's column at `index`.
///
/// # Errors
/// The name of the column and the reason, if the item has already set this column or if it is not in `writable`.
pub(super) fn writable_column<'a, C>(
    queue: &str,
    item: &NewItem,
    index: usize,
    writable: &'a HashMap<String, C>,
) -> Result<&'a C, (String, String)> {
    let (name, _) = &item.columns[index];
    let mut earlier = item.columns[..index].iter();
    if earlier.any(|(earlier, _)| earlier == name) {
        return Err((name.clone(), format!("the column {name:?} is set twice")));
    }
    writable.get(name).ok_or_else(|| {
        let mut names: Vec<&str> = writable.keys().map(String::as_str).collect();
        names.sort_unstable();
        let problem = format!(
            "queue {queue:?} has no column {name:?} that a new item can set; it can set {}",
            names.join(", ")
        );
        (name.clone(), problem)
    })
}

/// Returns true for decimal digits such as `-12.50`, with an optional sign and an optional fraction.
pub(super) fn is_decimal(digits: &str) -> bool {
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    all_digits(whole) && all_digits(fraction)
}
