//! The definition of an operation on many items, and the form in which the database has it.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::key_bytes::{read_keys, write_keys};
use lease_broker_store::{
    Cancellation, Checkpoints, ItemChange, ItemFilter, OperationKind, SearchPosition,
};
use lease_broker_value::Value;
use serde::{Deserialize, Serialize};

use crate::broker::limits::cancel_reason;

/// The items that a call selects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemSelection {
    /// The keys of the items. If there are any, the filter is empty.
    pub keys: Vec<String>,
    /// The conditions.
    pub filter: ItemFilter,
}

/// The change that an operation makes to each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationChange {
    /// Makes dead items ready.
    Redrive {
        /// The delay until they are ready.
        delay: Duration,
        /// True: they keep their attempts.
        keep_attempts: bool,
        /// True: they lose their checkpoints.
        clear_checkpoint: bool,
    },
    /// Takes leases away.
    CancelLeases {
        /// The delay until the items are ready.
        delay: Duration,
        /// True: the items become dead.
        dead_letter: bool,
    },
    /// Deletes dead items.
    PurgeDead,
    /// Deletes completed items.
    PurgeCompleted,
}

impl OperationChange {
    /// Returns the kind of the operation.
    pub const fn kind(self) -> OperationKind {
        match self {
            Self::Redrive { .. } => OperationKind::Redrive,
            Self::CancelLeases { .. } => OperationKind::CancelLeases,
            Self::PurgeDead | Self::PurgeCompleted => OperationKind::Purge,
        }
    }

    /// Returns the state of the items that it changes.
    pub const fn state(self) -> State {
        match self {
            Self::Redrive { .. } | Self::PurgeDead => State::Dead,
            Self::CancelLeases { .. } => State::Leased,
            Self::PurgeCompleted => State::Completed,
        }
    }

    /// Returns the change for the store. `reason`: that of a cancellation.
    pub(super) fn for_store(self, reason: &str) -> ItemChange {
        match self {
            Self::Redrive {
                delay,
                keep_attempts,
                clear_checkpoint,
            } => ItemChange::Redrive {
                delay,
                keep_attempts,
                checkpoints: if clear_checkpoint {
                    Checkpoints::Clear
                } else {
                    Checkpoints::Keep
                },
            },
            Self::CancelLeases { delay, dead_letter } => ItemChange::Cancel(Cancellation {
                delay,
                dead_letter,
                reason: cancel_reason(reason),
                call: None,
            }),
            Self::PurgeDead => ItemChange::Purge(State::Dead),
            Self::PurgeCompleted => ItemChange::Purge(State::Completed),
        }
    }
}

/// The definition of an operation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Definition {
    pub(super) selection: ItemSelection,
    pub(super) change: OperationChange,
    /// The maximum number of items that it changes. `None`: no maximum.
    pub(super) limit: Option<u64>,
    /// The maximum number of items that it changes per second. `None`: no maximum.
    pub(super) max_per_second: Option<u32>,
}

/// The form of a [`Definition`] in the database.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredDefinition {
    change: OperationChange,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_contains: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state_since: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state_before: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_attempt: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    columns: Vec<(String, StoredValue)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_per_second: Option<u32>,
}

/// The form of a [`Value`] in the database.
#[derive(Serialize, Deserialize)]
enum StoredValue {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    /// The infinity of this sign, which JSON does not have as a number.
    Infinity {
        negative: bool,
    },
    Text(String),
    Bytes(Vec<u8>),
    Timestamp {
        seconds: i64,
        nanos: i32,
    },
    Decimal(String),
}

impl Definition {
    /// Writes the definition for the database. Equal definitions have equal texts.
    pub(super) fn to_json(&self) -> String {
        let filter = &self.selection.filter;
        let columns = filter.columns.iter();
        let stored = StoredDefinition {
            change: self.change,
            keys: self.selection.keys.clone(),
            owner: filter.owner.clone(),
            error_contains: filter.error_contains.clone(),
            state_since: filter.state_since,
            state_before: filter.state_before,
            min_attempt: filter.min_attempt,
            columns: columns
                .map(|(name, value)| (name.clone(), value.clone().into()))
                .collect(),
            limit: self.limit,
            max_per_second: self.max_per_second,
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Reads the definition from the database. `None`: a newer broker has written it.
    pub(super) fn parse(json: &str) -> Option<Self> {
        let stored: StoredDefinition = serde_json::from_str(json).ok()?;
        let columns = stored.columns.into_iter();
        Some(Self {
            change: stored.change,
            limit: stored.limit,
            max_per_second: stored.max_per_second,
            selection: ItemSelection {
                keys: stored.keys,
                filter: ItemFilter {
                    owner: stored.owner,
                    error_contains: stored.error_contains,
                    state_since: stored.state_since,
                    state_before: stored.state_before,
                    min_attempt: stored.min_attempt,
                    columns: columns.map(|(name, value)| (name, value.into())).collect(),
                },
            },
        })
    }
}

impl From<Value> for StoredValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Int(value) => Self::Int(value),
            Value::Double(value) if value.is_infinite() => Self::Infinity {
                negative: value.is_sign_negative(),
            },
            Value::Double(value) => Self::Double(value),
            Value::Text(value) => Self::Text(value),
            Value::Bytes(value) => Self::Bytes(value),
            Value::Timestamp { seconds, nanos } => Self::Timestamp { seconds, nanos },
            Value::Decimal(value) => Self::Decimal(value),
        }
    }
}

impl From<StoredValue> for Value {
    fn from(value: StoredValue) -> Self {
        match value {
            StoredValue::Null => Self::Null,
            StoredValue::Bool(value) => Self::Bool(value),
            StoredValue::Int(value) => Self::Int(value),
            StoredValue::Double(value) => Self::Double(value),
            StoredValue::Infinity { negative: false } => Self::Double(f64::INFINITY),
            StoredValue::Infinity { negative: true } => Self::Double(f64::NEG_INFINITY),
            StoredValue::Text(value) => Self::Text(value),
            StoredValue::Bytes(value) => Self::Bytes(value),
            StoredValue::Timestamp { seconds, nanos } => Self::Timestamp { seconds, nanos },
            StoredValue::Decimal(value) => Self::Decimal(value),
        }
    }
}

/// The form of a [`SearchPosition`] in the database and in page tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredPlace {
    pub(super) time: Option<StoredTime>,
    pub(super) key: StoredKey,
}

/// The form of the time of a [`SearchPosition`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum StoredTime {
    Millis(i64),
    /// Another program wrote a value of another kind.
    Foreign(StoredKey),
}

impl StoredTime {
    fn new(time: &Value) -> Self {
        match time {
            Value::Int(millis) => Self::Millis(*millis),
            other => Self::Foreign(StoredKey::new(&Key([other.clone()].into()))),
        }
    }

    /// # Errors
    /// The reason why it is no time.
    pub(super) fn read(&self) -> Result<Value, String> {
        match self {
            Self::Millis(millis) => Ok(Value::Int(*millis)),
            Self::Foreign(value) => match &*value.decode()?.0 {
                [value] => Ok(value.clone()),
                _ => Err("a row has one time".to_owned()),
            },
        }
    }
}

impl From<&SearchPosition> for StoredPlace {
    fn from(position: &SearchPosition) -> Self {
        Self {
            time: position.time.as_ref().map(StoredTime::new),
            key: StoredKey::new(&position.key),
        }
    }
}

/// The form of a key, or of the value of a group, in the database and in page tokens. It keeps the kinds of the values, which the text
/// of a key does not have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredKey(String);

impl StoredKey {
    pub(super) fn new(key: &Key) -> Self {
        Self(BASE64URL_NOPAD.encode(&write_keys(std::slice::from_ref(key))))
    }

    /// Reads the key. `parse` reads its text, and refuses that of a key that no row can have: a caller can forge a token.
    ///
    /// # Errors
    /// The reason why it is no key.
    pub(super) fn read(
        &self,
        parse: impl FnOnce(&str) -> Result<Key, String>,
    ) -> Result<Key, String> {
        let key = self.decode()?;
        let parsed = parse(&key.to_string())?;
        if parsed.0.len() == key.0.len() {
            Ok(key)
        } else {
            Err(format!("{key} is no key"))
        }
    }

    fn decode(&self) -> Result<Key, String> {
        let bytes = BASE64URL_NOPAD.decode(self.0.as_bytes()).ok();
        let keys = bytes.and_then(|bytes| read_keys(&bytes));
        let [key] = <[Key; 1]>::try_from(keys.unwrap_or_default())
            .map_err(|_| format!("{:?} is not the place of a row", self.0))?;
        Ok(key)
    }
}

/// The place at which the next batch of an operation begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The number of keys of the selection that were visited.
    #[serde(default)]
    pub(super) keys: usize,
    /// The last row that was looked at. `None`: the search begins.
    #[serde(default)]
    pub(super) after: Option<StoredPlace>,
    /// Whether the present search through the leases has changed an item.
    #[serde(default)]
    pub(super) has_changed: bool,
}

impl Position {
    /// Reads a position from the database.
    pub(super) fn parse(json: Option<&str>) -> Self {
        let parsed = json.map(serde_json::from_str);
        parsed.and_then(Result::ok).unwrap_or_default()
    }

    /// Writes the position for the database.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_keeps_the_kinds_of_its_values() {
        for value in [
            Value::Int(1),
            Value::Text("1".to_owned()),
            Value::Bytes(vec![0x31, 0xff]),
            Value::Double(f64::INFINITY),
            Value::Decimal("ff61".to_owned()),
        ] {
            let key = Key([value.clone()].into());
            let place = StoredPlace::from(&SearchPosition {
                time: Some(value.clone()),
                key: key.clone(),
            });
            let json = serde_json::to_string(&place).expect("JSON");
            let read: StoredPlace = serde_json::from_str(&json).expect("a place");
            let parse = |text: &str| Ok(Key([Value::Text(text.to_owned())].into()));
            let time = read.time.map(|time| time.read());
            assert_eq!((time, read.key.read(parse)), (Some(Ok(value)), Ok(key)));
        }
        let key = StoredKey::new(&Key([Value::Int(1), Value::Int(2)].into()));
        assert!(key.read(|_| Ok(Key([Value::Int(1)].into()))).is_err());
    }

    #[test]
    fn definition_comes_back_from_the_database() {
        let definition = Definition {
            selection: ItemSelection {
                keys: Vec::new(),
                filter: ItemFilter {
                    owner: Some("worker-1".to_owned()),
                    error_contains: Some("100 %".to_owned()),
                    state_since: Some(1),
                    state_before: Some(2),
                    min_attempt: Some(3),
                    columns: vec![
                        ("a".to_owned(), Value::Null),
                        ("b".to_owned(), Value::Double(0.1)),
                        ("c".to_owned(), Value::Bytes(vec![0, 255])),
                        ("d".to_owned(), Value::Double(f64::INFINITY)),
                        ("e".to_owned(), Value::Double(f64::NEG_INFINITY)),
                    ],
                },
            },
            change: OperationChange::Redrive {
                delay: Duration::from_millis(1_500),
                keep_attempts: true,
                clear_checkpoint: false,
            },
            limit: Some(7),
            max_per_second: None,
        };
        assert_eq!(Definition::parse(&definition.to_json()), Some(definition));
        assert_eq!(Definition::parse("{}"), None);
    }
}
