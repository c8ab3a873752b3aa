//! Estimates how many leases fit into one response, before they are converted. The others are released.

use crate::store::ClaimedItem;
use crate::value::{Key, Value};

/// The bytes of a lease besides its columns: lease id, times, trace context, and a key of numbers.
const LEASE_BYTES: usize = 320;
/// The bytes of a map entry besides the column's name and value.
const ENTRY_BYTES: usize = 8;

/// Returns how many of the first `items` fit into a response of at most `max_bytes`, of which `used_bytes` are taken.
///
/// Returns at least 1, even if that item is larger than the limit. Otherwise no worker could ever claim it.
pub(super) fn count_within_limit(
    items: &[ClaimedItem],
    column_names: &[String],
    used_bytes: usize,
    max_bytes: usize,
) -> usize {
    let name_bytes: usize = column_names
        .iter()
        .map(|name| name.len() + ENTRY_BYTES)
        .sum();
    let mut bytes = used_bytes;
    let within_limit = items.iter().take_while(|item| {
        let values: usize = item.columns.iter().map(Value::wire_size).sum();
        bytes += LEASE_BYTES + name_bytes + values + long_key_bytes(&item.lease.key);
        bytes <= max_bytes
    });
    within_limit.count().max(1)
}

/// Returns the bytes that a key adds to a lease: once in the lease id as base64, and once in the item as text.
///
/// Returns 0 for a key of numbers only, because [`LEASE_BYTES`] includes it.
fn long_key_bytes(key: &Key) -> usize {
    let is_long =
        |value: &&Value| matches!(value, Value::Text(_) | Value::Bytes(_) | Value::Decimal(_));
    let long: usize = key.0.iter().filter(is_long).map(Value::wire_size).sum();
    if long == 0 {
        0
    } else {
        long * 4 / 3 + key.to_string().len()
    }
}
