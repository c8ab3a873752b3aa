//! Requests that add items once, however often they are sent.

use lease_broker_model::key::Key;
use lease_broker_model::key_bytes::{write_value, write_varint};
use lease_broker_value::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::NewItem;

/// Items to add, and the id by which the store recognizes a request that is sent again.
#[derive(Clone, Debug)]
pub struct EnqueueOnce {
    /// The id that the caller chose.
    pub request_id: Uuid,
    /// The items, at least one.
    pub items: Vec<NewItem>,
}

/// The result of an [`EnqueueOnce`].
#[derive(Clone, Debug, PartialEq)]
pub enum EnqueuedOnce {
    /// The items were added now. Their keys, in request order.
    Added(Vec<Key>),
    /// An earlier request with this id has added the items. Their keys, in request order.
    Repeated(Vec<Key>),
    /// An earlier request with this id had other items. Nothing was changed.
    OtherItems,
}

impl EnqueueOnce {
    /// Returns a hash of the items: their columns in any order, and their delays. A store compares it with that of the
    /// earlier request.
    ///
    /// The trace contexts do not count. A caller that sends a request again can do so in another span.
    pub fn digest(&self) -> [u8; 32] {
        let mut bytes = Vec::new();
        for item in &self.items {
            let mut columns: Vec<&(String, Value)> = item.columns.iter().collect();
            columns.sort_by(|(left, _), (right, _)| left.cmp(right));
            write_varint(&mut bytes, columns.len());
            for (name, value) in columns {
                write_varint(&mut bytes, name.len());
                bytes.extend_from_slice(name.as_bytes());
                write_value(&mut bytes, value);
            }
            bytes.extend_from_slice(&item.delay.as_nanos().to_be_bytes());
        }
        Sha256::digest(&bytes).into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn digest(columns: &[(&str, Value)], delay: u64, trace_parent: Option<&str>) -> [u8; 32] {
        let columns = columns.iter().cloned();
        let item = NewItem {
            columns: columns
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            delay: Duration::from_millis(delay),
            trace_parent: trace_parent.map(str::to_owned),
        };
        let request = EnqueueOnce {
            request_id: Uuid::new_v4(),
            items: vec![item],
        };
        request.digest()
    }

    #[test]
    fn digest_depends_on_columns_and_delay() {
        let text = |text: &str| Value::Text(text.to_owned());
        let (a, b) = (("a", text("x")), ("b", Value::Int(1)));
        let first = digest(&[a.clone(), b.clone()], 0, None);
        assert_eq!(digest(&[b.clone(), a.clone()], 0, Some("00-1-2-01")), first);
        for other in [
            digest(std::slice::from_ref(&a), 0, None),
            digest(&[a.clone(), b.clone()], 1, None),
            digest(&[a.clone(), ("b", Value::Int(2))], 0, None),
            digest(&[a.clone(), ("b", text("1"))], 0, None),
            digest(&[a, ("c", Value::Int(1))], 0, None),
        ] {
            assert_ne!(other, first);
        }
    }
}
