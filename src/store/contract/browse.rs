//! The contract for the reads of operators' pages and commands: items by filter, pauses, operations and brokers.

use std::sync::Arc;

use async_trait::async_trait;
use lease_broker_model::key::Key;
use uuid::Uuid;

use super::inspect::Inspect;
use super::item_search::{FoundItems, ItemRecord, ItemSearch};
use super::operations::Operation;
use super::pause::QueuePause;
use super::queue_index::QueueIndex;
use crate::error::StoreError;
use crate::group_list::{FoundGroups, GroupSearch};
use crate::instance::BrokerList;

/// Reads items, pauses, operations and brokers, and changes nothing. The rules of [`Inspect`] hold here too. A database without the
/// tables of the brokers has no pause, no operation and no broker.
#[async_trait]
pub trait Browse: Inspect {
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

/// Implements [`Browse`] for a type by the same methods of one of its fields.
macro_rules! browse_by_field {
    ($type:ty, $field:ident) => {
        #[async_trait::async_trait]
        impl $crate::Browse for $type {
            async fn find_items(
                &self,
                queue: $crate::QueueIndex,
                search: $crate::ItemSearch,
            ) -> Result<$crate::FoundItems, $crate::StoreError> {
                self.$field.find_items(queue, search).await
            }

            async fn find_keys(
                &self,
                queue: $crate::QueueIndex,
                keys: std::sync::Arc<[lease_broker_model::key::Key]>,
            ) -> Result<$crate::FoundItems, $crate::StoreError> {
                self.$field.find_keys(queue, keys).await
            }

            async fn read_item(
                &self,
                queue: $crate::QueueIndex,
                key: lease_broker_model::key::Key,
            ) -> Result<Option<$crate::ItemRecord>, $crate::StoreError> {
                self.$field.read_item(queue, key).await
            }

            async fn find_groups(
                &self,
                queue: $crate::QueueIndex,
                search: $crate::GroupSearch,
            ) -> Result<$crate::FoundGroups, $crate::StoreError> {
                self.$field.find_groups(queue, search).await
            }

            async fn pauses(&self) -> Result<Vec<$crate::QueuePause>, $crate::StoreError> {
                self.$field.pauses().await
            }

            async fn operation(
                &self,
                id: uuid::Uuid,
            ) -> Result<Option<$crate::Operation>, $crate::StoreError> {
                self.$field.operation(id).await
            }

            async fn operations(
                &self,
                queues: std::sync::Arc<[String]>,
                only_running: bool,
                before: Option<uuid::Uuid>,
                limit: usize,
            ) -> Result<Vec<$crate::Operation>, $crate::StoreError> {
                let operations = self.$field.operations(queues, only_running, before, limit);
                operations.await
            }

            async fn brokers(&self) -> Result<$crate::BrokerList, $crate::StoreError> {
                self.$field.brokers().await
            }
        }
    };
}
pub(crate) use browse_by_field;
