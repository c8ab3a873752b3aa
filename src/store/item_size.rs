//! The size of an item in the response to a claim, estimated in bytes. Claims are bounded by it.

use lease_broker_model::key::Key;
use lease_broker_model::queue::QueueSpec;
use lease_broker_value::Value;

use super::ClaimedItem;

/// The bytes of a lease besides its columns: lease id, times, trace context, and a key of numbers.
const LEASE_BYTES: usize = 340;
/// The bytes of a map entry besides the column's name and value.
const ENTRY_BYTES: usize = 8;
/// The most bytes of a value besides those of its text or bytes.
const VALUE_BYTES: usize = 12;

/// Estimates the sizes of the items of one queue.
#[derive(Clone, Copy, Debug)]
pub struct ItemSize {
    /// The bytes that every item has.
    fixed: usize,
    columns: usize,
}

impl ItemSize {
    /// Returns the estimates for a queue with these data columns.
    pub fn new(column_names: &[String]) -> Self {
        let names = column_names.iter().map(|name| name.len() + ENTRY_BYTES);
        Self {
            fixed: LEASE_BYTES + names.sum::<usize>(),
            columns: column_names.len(),
        }
    }

    /// Returns the size of an item.
    pub fn of(&self, item: &ClaimedItem) -> usize {
        let values: usize = item.columns.iter().map(Value::wire_size).sum();
        let checkpoint = item.checkpoint.as_ref().map_or(0, Vec::len);
        self.fixed + values + checkpoint + long_key_bytes(&item.lease.key)
    }

    /// Returns the size of a new item whose values have this size in total, without [`long_key_bytes`].
    pub(super) fn of_new(&self, values: usize) -> usize {
        self.fixed + self.columns * VALUE_BYTES + values
    }

    /// Returns the size of an item with this key. `data_bytes` is the number of bytes of all its values and its checkpoint,
    /// as the database counts them.
    pub fn of_stored(&self, key: &Key, data_bytes: usize) -> usize {
        self.fixed + self.columns * VALUE_BYTES + data_bytes + long_key_bytes(key)
    }
}

/// The error text of an item whose fencing token or attempts cannot grow any more.
pub(super) const FULL_COUNTER_TEXT: &str =
    "its counter is full: the fencing token or the number of attempts cannot grow any more";

/// Returns the limit that an item exceeds which is larger than [`QueueSpec::max_leased_bytes`]. It follows the number of its bytes.
pub(super) fn exceeded_limit(queue: &QueueSpec) -> String {
    let most = queue.max_leased_bytes();
    let setting = if most < queue.max_item_bytes {
        "server.max_message_bytes"
    } else {
        "limits.max_item_bytes"
    };
    format!("bytes, more than {setting}, which is {most}")
}

/// Returns the end of the error text of an item that a claim has made dead because of its size. It follows the number of its bytes.
pub(super) fn set_aside_text(queue: &QueueSpec) -> String {
    exceeded_limit(queue) + ": make the item smaller or raise the setting, then redrive the item"
}

/// Returns the bytes that a key adds to a lease: once in the lease id as base64, and once in the item as text.
///
/// Returns 0 for a key of numbers only, because [`LEASE_BYTES`] includes it.
pub(super) fn long_key_bytes(key: &Key) -> usize {
    let is_long =
        |value: &&Value| matches!(value, Value::Text(_) | Value::Bytes(_) | Value::Decimal(_));
    let long: usize = key.0.iter().filter(is_long).map(Value::wire_size).sum();
    if long == 0 {
        0
    } else {
        long * 4 / 3 + key.to_string().len()
    }
}
