//! The operators' part of the contract, for [`Shared`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_broker_model::key::Key;
use lease_broker_store::{
    AppliedBatch, BrokerList, BrokerOrders, Browse, FoundGroups, FoundItems, GroupPause,
    GroupSearch, ItemRecord, ItemSearch, LimitChange, NewGroupPause, NewOperation, NewPause,
    Operate, Operation, OperationBatch, QueueIndex, QueueLimitValues, QueuePause, StartedOperation,
    StoreError,
};
use uuid::Uuid;

use super::runtime::shared;
use super::store::Shared;

#[async_trait]
impl<T: Browse> Browse for Shared<T> {
    async fn find_items(
        &self,
        queue: QueueIndex,
        search: ItemSearch,
    ) -> Result<FoundItems, StoreError> {
        shared(self.0.find_items(queue, search)).await
    }

    async fn find_keys(
        &self,
        queue: QueueIndex,
        keys: Arc<[Key]>,
    ) -> Result<FoundItems, StoreError> {
        shared(self.0.find_keys(queue, keys)).await
    }

    async fn read_item(
        &self,
        queue: QueueIndex,
        key: Key,
    ) -> Result<Option<ItemRecord>, StoreError> {
        shared(self.0.read_item(queue, key)).await
    }

    async fn find_groups(
        &self,
        queue: QueueIndex,
        search: GroupSearch,
    ) -> Result<FoundGroups, StoreError> {
        shared(self.0.find_groups(queue, search)).await
    }

    async fn pauses(&self) -> Result<Vec<QueuePause>, StoreError> {
        shared(self.0.pauses()).await
    }

    async fn operation(&self, id: Uuid) -> Result<Option<Operation>, StoreError> {
        shared(self.0.operation(id)).await
    }

    async fn operations(
        &self,
        queues: Arc<[String]>,
        only_running: bool,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError> {
        shared(self.0.operations(queues, only_running, before, limit)).await
    }

    async fn brokers(&self) -> Result<BrokerList, StoreError> {
        shared(self.0.brokers()).await
    }
}

#[async_trait]
impl<T: Operate> Operate for Shared<T> {
    async fn pause(&self, queue: QueueIndex, pause: NewPause) -> Result<QueuePause, StoreError> {
        shared(self.0.pause(queue, pause)).await
    }

    async fn resume(&self, queue: QueueIndex) -> Result<Option<QueuePause>, StoreError> {
        shared(self.0.resume(queue)).await
    }

    async fn set_limits(
        &self,
        queue: QueueIndex,
        change: LimitChange,
    ) -> Result<QueueLimitValues, StoreError> {
        shared(self.0.set_limits(queue, change)).await
    }

    async fn pause_group(
        &self,
        queue: QueueIndex,
        group: Key,
        pause: NewGroupPause,
    ) -> Result<Option<GroupPause>, StoreError> {
        shared(self.0.pause_group(queue, group, pause)).await
    }

    async fn resume_group(
        &self,
        queue: QueueIndex,
        group: Key,
    ) -> Result<Option<GroupPause>, StoreError> {
        shared(self.0.resume_group(queue, group)).await
    }

    async fn start_operation(
        &self,
        queue: QueueIndex,
        operation: NewOperation,
    ) -> Result<StartedOperation, StoreError> {
        shared(self.0.start_operation(queue, operation)).await
    }

    async fn cancel_operation(
        &self,
        id: Uuid,
        actor: &str,
    ) -> Result<Option<Operation>, StoreError> {
        shared(self.0.cancel_operation(id, actor)).await
    }

    async fn take_operation(
        &self,
        queues: &[String],
        broker: Uuid,
        duration: Duration,
    ) -> Result<Option<Operation>, StoreError> {
        shared(self.0.take_operation(queues, broker, duration)).await
    }

    async fn apply_batch(
        &self,
        queue: QueueIndex,
        batch: OperationBatch,
    ) -> Result<AppliedBatch, StoreError> {
        shared(self.0.apply_batch(queue, batch)).await
    }

    async fn request_drain(&self, broker: Uuid) -> Result<bool, StoreError> {
        shared(self.0.request_drain(broker)).await
    }

    async fn read_orders(
        &self,
        broker: Uuid,
        queues: &[String],
    ) -> Result<BrokerOrders, StoreError> {
        shared(self.0.read_orders(broker, queues)).await
    }
}
