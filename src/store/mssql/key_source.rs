//! The source of the keys of new items that do not name their key: an identity column, or default values.

use lease_broker_model::queue::QueueSpec;

use super::catalogue::Column;
use super::connection::Connection;
use super::quote::quote_table;
use crate::{NewItem, StoreError};

/// Reads the increment of an identity column.
const INCREMENT: &str = "SELECT CAST(i.increment_value AS bigint)
FROM sys.identity_columns AS i
WHERE i.object_id = OBJECT_ID(@P1) AND i.name = @P2";

/// The source of the key of an item that does not name its key. It decides how the item is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeySource {
    /// The key is one identity column with this increment.
    Identity(i64),
    /// All other keys: default values of any kind, or no source.
    Defaults,
}

impl KeySource {
    pub(super) async fn read(
        connection: &mut Connection,
        queue: &QueueSpec,
        key: &[Column],
    ) -> Result<Self, StoreError> {
        let [column] = key else {
            return Ok(Self::Defaults);
        };
        let object = quote_table(&queue.table);
        let results = connection
            .query(INCREMENT, &[&object, &column.name])
            .await?;
        let increment: Option<i64> = match results.first().and_then(|rows| rows.first()) {
            Some(row) => row.try_get(0)?,
            None => None,
        };
        Ok(increment.map_or(Self::Defaults, Self::Identity))
    }

    /// Returns the section of `enqueue.sql` that inserts items with the same columns as `item`.
    pub(super) fn section(self, key: &[Column], item: &NewItem) -> &'static str {
        let is_named = |column: &Column| item.columns.iter().any(|(name, _)| *name == column.name);
        match self {
            _ if key.iter().all(is_named) => "insert_given_keys",
            Self::Identity(_) => "insert_identity_keys",
            Self::Defaults => "insert_row_by_row",
        }
    }

    /// Returns the section of `enqueue_once.sql` that remembers the keys of the items.
    pub(super) fn remember_section(self, key: &[Column], item: &NewItem) -> &'static str {
        match self.section(key, item) {
            "insert_given_keys" => "remember_given_keys",
            "insert_identity_keys" => "remember_identity_keys",
            _ => "remember_row_by_row_keys",
        }
    }

    /// Returns the sort direction in which the new keys are in the order of their items: an identity column can count
    /// down.
    pub(super) fn direction(self) -> &'static str {
        match self {
            Self::Identity(increment) if increment < 0 => " DESC",
            Self::Identity(_) | Self::Defaults => "",
        }
    }
}
