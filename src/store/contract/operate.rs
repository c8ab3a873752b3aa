//! The contract for what operators change: pauses of queues, operations on many items, and orders to brokers.

use std::time::Duration;

use async_trait::async_trait;
use lease_broker_model::key::Key;
use uuid::Uuid;

use super::group_pause::{GroupPause, NewGroupPause};
use super::limits::{LimitChange, QueueLimitValues};
use super::operations::{
    AppliedBatch, BrokerOrders, NewOperation, Operation, OperationBatch, StartedOperation,
};
use super::pause::{NewPause, QueuePause};
use super::queue_index::QueueIndex;
use crate::error::StoreError;

/// The time after which an operation that has ended is deleted.
pub const KEEP_OPERATIONS_FOR: Duration = Duration::from_secs(10 * 86_400);
/// The longest time for which a broker takes an operation. One that is held for longer was taken before the clock was put back, and is free.
pub const LONGEST_HOLD: Duration = Duration::from_secs(5 * 60);

/// Changes queues, items and brokers for operators.
///
/// The rules of the [module](crate) and the errors of [`Leases`](super::Leases) hold here too.
#[async_trait]
pub trait Operate: Send + Sync + 'static {
    /// Pauses a queue, or replaces its pause. No claim that begins after the answer gets a lease, at any broker.
    async fn pause(&self, queue: QueueIndex, pause: NewPause) -> Result<QueuePause, StoreError>;

    /// Ends the pause of a queue, and returns it. `None`: the queue was not paused.
    async fn resume(&self, queue: QueueIndex) -> Result<Option<QueuePause>, StoreError>;

    /// Changes limits of a queue, and returns its limits. They count from the next claim on, at any broker. A queue that has neither groups
    /// nor limits in its configuration does not obey them.
    async fn set_limits(
        &self,
        queue: QueueIndex,
        change: LimitChange,
    ) -> Result<QueueLimitValues, StoreError>;

    /// Pauses a group of a queue that has groups, or replaces its pause. No claim that begins after the answer leases an item of
    /// the group, at any broker. Leases that are held go on. `None`: [`MAX_PAUSED_GROUPS`](crate::MAX_PAUSED_GROUPS) other groups
    /// are paused.
    async fn pause_group(
        &self,
        queue: QueueIndex,
        group: Key,
        pause: NewGroupPause,
    ) -> Result<Option<GroupPause>, StoreError>;

    /// Ends the pause of a group, and returns it. `None`: the group was not paused.
    async fn resume_group(
        &self,
        queue: QueueIndex,
        group: Key,
    ) -> Result<Option<GroupPause>, StoreError>;

    /// Stores an operation, unless one with its id exists or the queue runs one of its kind. Deletes operations that ended more than
    /// [`KEEP_OPERATIONS_FOR`] ago.
    async fn start_operation(
        &self,
        queue: QueueIndex,
        operation: NewOperation,
    ) -> Result<StartedOperation, StoreError>;

    /// Ends an operation that runs. Returns the operation. `None`: there is none with this id.
    async fn cancel_operation(
        &self,
        id: Uuid,
        actor: &str,
    ) -> Result<Option<Operation>, StoreError>;

    /// Makes `broker` the one that runs an operation for `duration` from now, at most [`LONGEST_HOLD`]. `None`: it has ended, or another
    /// broker holds it.
    async fn take_operation(
        &self,
        id: Uuid,
        broker: Uuid,
        duration: Duration,
    ) -> Result<Option<Operation>, StoreError>;

    /// Applies a batch of an operation on `queue`: changes its items and records the progress in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if a constraint or a trigger refuses a change. Nothing was changed then.
    async fn apply_batch(
        &self,
        queue: QueueIndex,
        batch: OperationBatch,
    ) -> Result<AppliedBatch, StoreError>;

    /// Tells a broker process to drain. Returns false if no such process was listed.
    async fn request_drain(&self, broker: Uuid) -> Result<bool, StoreError>;

    /// Reads what the database asks of `broker`. `queues`: those whose operations it can run.
    async fn read_orders(
        &self,
        broker: Uuid,
        queues: &[String],
    ) -> Result<BrokerOrders, StoreError>;
}
