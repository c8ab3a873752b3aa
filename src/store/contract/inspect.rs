//! The contract for operators' reads: counts, lists of items, and the facts about one item. The broker's store has it, and so have
//! stores that only read.

use std::time::Duration;

use async_trait::async_trait;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;

use super::queue_index::QueueIndex;
use crate::error::StoreError;
use crate::item_facts::ItemFacts;
use crate::stats::{ListedItem, Stats};

/// Reads the leases of all queues in a database, and changes nothing.
///
/// The rules of the [module](crate) and the errors of [`Leases`](super::Leases) hold here too. A database in which a program holds
/// locks can be read, and a login or a user without the right to write can read it.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// Parses a key from its text form, the one that its `Display` writes.
    ///
    /// # Errors
    /// The reason why the text is no key of the queue.
    fn parse_key(&self, queue: QueueIndex, text: &str) -> Result<Key, String>;

    /// Parses the name of a group from its text form, that of a key with one value.
    ///
    /// # Errors
    /// The reason why the text names no group: the queue has none, or the column cannot have this value.
    fn parse_group(&self, queue: QueueIndex, text: &str) -> Result<Key, String>;

    /// Counts the items of each state and measures the oldest ready item and the oldest lease.
    ///
    /// The cost does not grow with the table, so the result has limits. If more than [`Stats::COUNT_LIMIT`] items are
    /// in a state, the count of the state can be a lower bound or an estimate. The oldest ready item is searched among
    /// the first and the last 1,000 in the queue's order, and the oldest lease among 10,000, or 2,000 on SQL Server. The result says if
    /// there are more.
    async fn stats(&self, queue: QueueIndex) -> Result<Stats, StoreError> {
        let (stats, _) = self.timed_stats(queue, None).await?;
        Ok(stats)
    }

    /// Does the same as [`Inspect::stats`], and returns how long the statements took, without the wait for a connection.
    ///
    /// Statements that take longer than `within` are ended, also if they wait for a lock. `None`: they can take as long as any
    /// operation.
    async fn timed_stats(
        &self,
        queue: QueueIndex,
        within: Option<Duration>,
    ) -> Result<(Stats, Duration), StoreError>;

    /// Does the same as [`Inspect::stats`], but counts every item. The cost grows with the table.
    async fn exact_stats(&self, queue: QueueIndex) -> Result<Stats, StoreError>;

    /// Lists up to `limit` items in `state`, those that have been in it longest first. If more than 10,000 items are in
    /// the state, the list can miss the oldest.
    async fn list(
        &self,
        queue: QueueIndex,
        state: State,
        limit: usize,
    ) -> Result<Vec<ListedItem>, StoreError>;

    /// Collects the facts from which an operator learns why the item with this key is not being claimed. They are of about one
    /// moment, and not of exactly one.
    ///
    /// The items ahead of a ready item are counted up to [`ItemFacts::AHEAD_LIMIT`]. A lock of another program counts if the
    /// program holds it for a second, so the call can take that long. On SQL Server the row is read with changes that are not
    /// committed yet.
    async fn item_facts(&self, queue: QueueIndex, key: Key) -> Result<ItemFacts, StoreError>;
}

/// Implements [`Inspect`] for a type by the same methods of one of its fields.
macro_rules! inspect_by_field {
    ($type:ty, $field:ident) => {
        #[async_trait::async_trait]
        impl $crate::Inspect for $type {
            fn parse_group(
                &self,
                queue: $crate::QueueIndex,
                text: &str,
            ) -> Result<lease_broker_model::key::Key, String> {
                self.$field.parse_group(queue, text)
            }

            fn parse_key(
                &self,
                queue: $crate::QueueIndex,
                text: &str,
            ) -> Result<lease_broker_model::key::Key, String> {
                self.$field.parse_key(queue, text)
            }

            async fn timed_stats(
                &self,
                queue: $crate::QueueIndex,
                within: Option<std::time::Duration>,
            ) -> Result<($crate::Stats, std::time::Duration), $crate::StoreError> {
                self.$field.timed_stats(queue, within).await
            }

            async fn exact_stats(
                &self,
                queue: $crate::QueueIndex,
            ) -> Result<$crate::Stats, $crate::StoreError> {
                self.$field.exact_stats(queue).await
            }

            async fn list(
                &self,
                queue: $crate::QueueIndex,
                state: lease_broker_model::item_state::State,
                limit: usize,
            ) -> Result<Vec<$crate::ListedItem>, $crate::StoreError> {
                self.$field.list(queue, state, limit).await
            }

            async fn item_facts(
                &self,
                queue: $crate::QueueIndex,
                key: lease_broker_model::key::Key,
            ) -> Result<$crate::ItemFacts, $crate::StoreError> {
                self.$field.item_facts(queue, key).await
            }
        }
    };
}
pub(crate) use inspect_by_field;
