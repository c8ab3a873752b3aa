//! Where the key of a new item comes from, which decides how the item is added.

use super::catalogue::Column;
use super::connection::Connection;
use super::quote::quote_table;
use crate::queue::QueueSpec;
use crate::store::{NewItem, StoreError};

const INCREMENT: &str = "SELECT CAST(i.increment_value AS bigint)
FROM sys.identity_columns AS i
WHERE i.object_id = OBJECT_ID(@P1) AND i.name = @P2";

/// What makes the keys of items that do not name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeySource {
    /// The one column of the key counts, by this much.
    Identity(i64),
    /// Defaults of any kind, or nothing.
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

    /// Returns the section of `enqueue.sql` that adds items which name the same columns as `item`.
    pub(super) fn section(self, key: &[Column], item: &NewItem) -> &'static str {
        let names = |column: &Column| item.columns.iter().any(|(name, _)| *name == column.name);
        match self {
            _ if key.iter().all(names) => "insert_given_keys",
            Self::Identity(_) => "insert_identity_keys",
            Self::Defaults => "insert_row_by_row",
        }
    }

    /// Returns how the keys are sorted to stand as they were made.
    pub(super) fn direction(self) -> &'static str {
        match self {
            Self::Identity(increment) if increment < 0 => " DESC",
            Self::Identity(_) | Self::Defaults => "",
        }
    }
}
