//! Checks of a new item's columns and values, the same in every store.

use std::collections::HashMap;

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{self, MAX_KEY_BYTES};
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::text::Quoted;
use lease_broker_value::Value;

use super::item_size::{exceeded_limit, long_key_bytes};
use super::{ItemSize, NewItem, Problem, ProblemKind};

/// The most bytes that a key which [`check_key_length`] accepts adds to a lease.
const MOST_BYTES_OF_A_KEY: usize = 8 * MAX_KEY_BYTES;

/// Returns the table's column for the item's column at `index`.
///
/// # Errors
/// The name of the column and the reason, if the item has already set this column or if it is not in `insertable`.
pub(super) fn insertable_column<'a, C>(
    queue: &str,
    item: &NewItem,
    index: usize,
    insertable: &'a HashMap<String, C>,
) -> Result<&'a C, (String, Problem)> {
    let (name, _) = &item.columns[index];
    let mut earlier = item.columns[..index].iter();
    if earlier.any(|(earlier, _)| earlier == name) {
        let text = format!("the column {} is set twice", Quoted(name));
        return Err((name.clone(), Problem::new(ProblemKind::InvalidField, text)));
    }
    insertable.get(name).ok_or_else(|| {
        let mut names: Vec<&str> = insertable.keys().map(String::as_str).collect();
        names.sort_unstable();
        let text = format!(
            "queue {queue:?} has no column {} that a new item can set; it can set {}",
            Quoted(name),
            names.join(", ")
        );
        (
            name.clone(),
            Problem::new(ProblemKind::ColumnNotWritable, text),
        )
    })
}

/// Checks that a lease id can hold the key that the item sets. `is_key` tells whether a column is part of the key.
///
/// # Errors
/// The name of the longest key column and the reason.
pub(super) fn check_key_length(
    item: &NewItem,
    is_key: impl Fn(&str) -> bool,
) -> Result<(), (String, Problem)> {
    let key = || item.columns.iter().filter(|(name, _)| is_key(name));
    let bytes = |value: &Value| lease_id::key_bytes([value]);
    let all_bytes = key().map(|(_, value)| bytes(value)).sum::<usize>();
    if all_bytes <= MAX_KEY_BYTES {
        return Ok(());
    }
    let longest = key().max_by_key(|(_, value)| bytes(value));
    let name = longest.map(|(name, _)| name.clone()).unwrap_or_default();
    let problem =
        format!("the key takes {all_bytes} bytes in a lease id; at most {MAX_KEY_BYTES} fit");
    Err((name, Problem::unfit(problem)))
}

/// Checks that a claim can return the item: it is not larger than an item or a response may be. `is_key` tells whether a column is part
/// of the key, and `is_data` whether a worker gets it.
///
/// # Errors
/// The name of the largest column and the reason.
pub(super) fn check_item_size(
    item: &NewItem,
    size: ItemSize,
    queue: &QueueSpec,
    is_key: impl Fn(&str) -> bool,
    is_data: impl Fn(&str) -> bool,
) -> Result<(), (String, Problem)> {
    let most = queue.max_leased_bytes();
    // A column of NULL has the size of one that the item does not name.
    let wire_size = |value: &Value| match value {
        Value::Null => 0,
        value => value.wire_size(),
    };
    let sizes = || item.columns.iter().map(|(_, value)| wire_size(value));
    // Almost every item is small, and then the names of its columns do not matter.
    if size.of_new(sizes().sum()) + MOST_BYTES_OF_A_KEY <= most {
        return Ok(());
    }
    let data = || item.columns.iter().filter(|(name, _)| is_data(name));
    let key = item.columns.iter().filter(|(name, _)| is_key(name));
    let key = Key(key.map(|(_, value)| value.clone()).collect());
    let data_bytes = data().map(|(_, value)| wire_size(value)).sum();
    let size_bytes = size.of_new(data_bytes) + long_key_bytes(&key);
    if size_bytes <= most {
        return Ok(());
    }
    let largest = data().max_by_key(|(_, value)| wire_size(value));
    let name = largest.map(|(name, _)| name.clone()).unwrap_or_default();
    let text = format!("the item has {size_bytes} {}", exceeded_limit(queue));
    Err((name, Problem::unfit(text)))
}

/// Returns true for decimal digits such as `-12.50`, with an optional sign and an optional fraction.
pub(super) fn is_decimal(digits: &str) -> bool {
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    all_digits(whole) && all_digits(fraction)
}
