//! The state that all operations share. Each operation is a method, in the file that is named after it.

use std::sync::Arc;

use super::pool::Pool;
use super::queue_statements::QueueStatements;
use crate::{QueueIndex, StoreError};

/// The state that all operations share. Clones share the same pool and statements.
#[derive(Clone)]
pub(super) struct MssqlOperations {
    pub(super) pool: Pool,
    pub(super) queues: Arc<[QueueStatements]>,
}

impl MssqlOperations {
    pub(super) fn queue(&self, queue: QueueIndex) -> Result<&QueueStatements, StoreError> {
        self.queues.get(queue.0).ok_or_else(|| {
            StoreError::Bug(format!("the store has no queue with index {}", queue.0))
        })
    }

    /// Runs an operation in a new task. The operation runs to its end even if the caller drops this future.
    pub(super) async fn run<T, Run>(
        &self,
        operation: impl FnOnce(MssqlOperations) -> Run,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Run: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let task = tokio::spawn(operation(self.clone()));
        task.await
            .map_err(|error| StoreError::Bug(format!("an operation ended early: {error}")))?
    }
}
