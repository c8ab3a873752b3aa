//! The contract for operators' reads: counts, items, the facts about one item, pauses, operations and brokers. The broker's store has
//! it, and so have stores that only read.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use uuid::Uuid;

use super::item_search::{FoundItems, ItemRecord, ItemSearch};
use super::operations::Operation;
use super::pause::QueuePause;
use super::queue_index::QueueIndex;
use crate::error::StoreError;
use crate::group_list::{FoundGroups, GroupSearch};
use crate::instance::BrokerList;
use crate::item_facts::ItemFacts;
use crate::stats::{ListedItem, Stats};

/// Reads the leases of all queues in a database, and changes nothing.
///
/// The rules of the [module](crate) and the errors of [`Leases`](super::Leases) hold here too. A database in which a program holds
/// locks can be read, and a login or a user without the right to write can read it. A database without the tables of the brokers has
/// no pause, no operation and no broker.
#[async_trait]
pub trait Browse: Send + Sync + 'static {
    /// Parses a key from its text form, the one that its `Display` writes.
    ///
    /// # Errors
    /// The reason why the text is no key of the queue.
    fn parse_key(&self, queue: QueueIndex, text: &str) -> Result<Key, String>;

    /// Returns whether a call can find the key of a row that contains NUL. Other databases ignore NUL in a comparison, or refuse it.
    fn finds_nul(&self) -> bool {
        false
    }

    /// Parses the name of a group from its text form, that of a key with one value.
    ///
    /// # Errors
    /// The reason why the text names no group: the queue has none, or the column cannot have this value.
    fn parse_group(&self, queue: QueueIndex, text: &str) -> Result<Key, String>;

    /// Checks that a group has the type of its column. SQLite keeps a value of any type in any column, but a caller that names such a
    /// group has almost certainly mistyped it.
    ///
    /// # Errors
    /// The reason why the group does not have the type.
    fn check_group_type(&self, _queue: QueueIndex, _group: &Key) -> Result<(), String> {
        Ok(())
    }

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

    /// Does the same as [`Browse::stats`], and returns how long the statements took, without the wait for a connection.
    ///
    /// Statements that take longer than `within` are ended, also if they wait for a lock. `None`: they can take as long as any
    /// operation.
    async fn timed_stats(
        &self,
        queue: QueueIndex,
        within: Option<Duration>,
    ) -> Result<(Stats, Duration), StoreError>;

    /// Does the same as [`Browse::stats`], but counts every item. The cost grows with the table.
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

    /// Finds a page of items of one state that fit a filter.
    ///
    /// Dead items come in the order of the time at which they became dead, leased and delayed ones in that of their due times, and
    /// others in that of the key. A queue without filtered indexes can have the order of the key for all. The cost of a page is bounded
    /// by [`ItemSearch::max_examined`], wherever it begins. All pages together list an item exactly once if it does not change
    /// meanwhile. Rows with NULL in a key column are left out.
    async fn find_items(
        &self,
        queue: QueueIndex,
        search: ItemSearch,
    ) -> Result<FoundItems, StoreError>;

    /// Finds the items with these keys, in the order of the keys, each once. Keys without a row are left out. [`FoundItems::end`] is `None`.
    async fn find_keys(
        &self,
        queue: QueueIndex,
        keys: Arc<[Key]>,
    ) -> Result<FoundItems, StoreError>;

    /// Reads one item with its columns. `None`: no row has the key.
    async fn read_item(
        &self,
        queue: QueueIndex,
        key: Key,
    ) -> Result<Option<ItemRecord>, StoreError>;

    /// Finds a page of groups of a queue that has groups, in the order of their values: those that have a ready, leased or delayed
    /// item, or a dead one that halts them, and those that are paused. The cost grows with the number of groups on the page, and
    /// not with their items. A group that changes meanwhile can be left out.
    async fn find_groups(
        &self,
        queue: QueueIndex,
        search: GroupSearch,
    ) -> Result<FoundGroups, StoreError>;

    /// Returns the pauses of all queues that have not ended. None if the tables of the brokers do not exist.
    async fn pauses(&self) -> Result<Vec<QueuePause>, StoreError>;

    /// Returns the operation with this id. `None`: there is none.
    async fn operation(&self, id: Uuid) -> Result<Option<Operation>, StoreError>;

    /// Lists up to `limit` operations on these queues, the latest first: those that were stored before the one with the id `before`, or
    /// the first ones. With `only_running`, those that have ended are left out.
    async fn operations(
        &self,
        queues: Arc<[String]>,
        only_running: bool,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError>;

    /// Lists the brokers that were seen within the last day, those that were seen last first.
    async fn brokers(&self) -> Result<BrokerList, StoreError>;
}
