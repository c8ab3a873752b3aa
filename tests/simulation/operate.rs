//! The operators' part of the contract, which no task of the simulated brokers needs.

use std::time::Duration;

use async_trait::async_trait;
use lease_broker_model::key::Key;
use lease_broker_store::{
    AppliedBatch, BrokerOrders, GroupPause, LimitChange, NewGroupPause, NewOperation, NewPause,
    Operate, Operation, OperationBatch, QueueIndex, QueueLimitValues, QueuePause, StartedOperation,
    StoreError,
};
use uuid::Uuid;

use super::store::{SimulatedStore, unsupported};

#[async_trait]
impl Operate for SimulatedStore {
    async fn pause(&self, _: QueueIndex, _: NewPause) -> Result<QueuePause, StoreError> {
        Err(unsupported())
    }

    async fn resume(&self, _: QueueIndex) -> Result<Option<QueuePause>, StoreError> {
        Err(unsupported())
    }

    async fn set_limits(
        &self,
        _: QueueIndex,
        _: LimitChange,
    ) -> Result<QueueLimitValues, StoreError> {
        Err(unsupported())
    }

    async fn pause_group(
        &self,
        _: QueueIndex,
        _: Key,
        _: NewGroupPause,
    ) -> Result<Option<GroupPause>, StoreError> {
        Err(unsupported())
    }

    async fn resume_group(&self, _: QueueIndex, _: Key) -> Result<Option<GroupPause>, StoreError> {
        Err(unsupported())
    }

    async fn start_operation(
        &self,
        _: QueueIndex,
        _: NewOperation,
    ) -> Result<StartedOperation, StoreError> {
        Err(unsupported())
    }

    async fn cancel_operation(&self, _: Uuid, _: &str) -> Result<Option<Operation>, StoreError> {
        Err(unsupported())
    }

    async fn take_operation(
        &self,
        _: Uuid,
        _: Uuid,
        _: Duration,
    ) -> Result<Option<Operation>, StoreError> {
        Err(unsupported())
    }

    async fn apply_batch(
        &self,
        _: QueueIndex,
        _: OperationBatch,
    ) -> Result<AppliedBatch, StoreError> {
        Err(unsupported())
    }

    async fn request_drain(&self, _: Uuid) -> Result<bool, StoreError> {
        Err(unsupported())
    }

    async fn read_orders(&self, _: Uuid, _: &[String]) -> Result<BrokerOrders, StoreError> {
        Ok(BrokerOrders::default())
    }
}
