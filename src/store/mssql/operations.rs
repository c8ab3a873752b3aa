//! The state that all operations share. Each operation is a method, in the file that is named after it.

use std::sync::Arc;

use tiberius::{Row, ToSql};
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::error::{OperationFailure, RetrySafety, into_refusal};
use super::list_parameters::ListParameters;
use super::pool::{Pool, Tries};
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

    /// Runs a batch that may run twice. See [`RetrySafety::Idempotent`].
    pub(super) async fn query_idempotent(
        &self,
        sql: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Vec<Row>>, OperationFailure> {
        self.pool
            .query(sql, parameters, RetrySafety::Idempotent)
            .await
    }

    /// Returns the results of a batch that changes the entries of a list, after it has failed. `sql` with the parameters
    /// `without_entries` is the same batch for no entry.
    ///
    /// An error that the broker does not know can pass, so the batch is run once more. It can be that of an entry, for example of a
    /// CHECK that divides by a value. It is the broker's own, and so a [`StoreError::Bug`], only if the batch fails without entries as
    /// well.
    ///
    /// # Errors
    /// The failure, as [`into_refusal`] converts it.
    pub(super) async fn after_failure(
        &self,
        tries: &mut Tries<'_>,
        failure: OperationFailure,
        (sql, retry_safety): (&str, RetrySafety),
        (parameters, without_entries): (&[&dyn ToSql], &[&dyn ToSql]),
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        if !failure.is_unlisted() {
            return Err(into_refusal(failure));
        }
        // The server has rolled the batch back.
        let failure = match tries.query(sql, parameters, retry_safety).await {
            Ok(results) => return Ok(results),
            Err(failure) => failure,
        };
        Err(self.refusal(failure, sql, without_entries).await)
    }

    /// Runs a batch that changes the entries of lists.
    ///
    /// # Errors
    /// Those of [`MssqlOperations::after_failure`].
    pub(super) async fn run_lists(
        &self,
        tries: &mut Tries<'_>,
        (sql, retry_safety): (&str, RetrySafety),
        lists: &ListParameters,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let parameters = lists.parameters();
        let failure = match tries.query(sql, &parameters, retry_safety).await {
            Ok(results) => return Ok(results),
            Err(failure) => failure,
        };
        let empty = lists.without_entries();
        let both = (&*parameters, &*empty.parameters());
        self.after_failure(tries, failure, (sql, retry_safety), both)
            .await
    }

    /// Converts the failure of a batch that changes the entries of a list, and that was run twice.
    pub(super) async fn refusal(
        &self,
        failure: OperationFailure,
        sql: &str,
        without_entries: &[&dyn ToSql],
    ) -> StoreError {
        if failure.is_unlisted() {
            let empty = self.query_idempotent(sql, without_entries);
            if let Err(failure) = empty.await {
                return failure.into();
            }
        }
        into_refusal(failure)
    }

    /// Runs an operation in a new task, on the runtime of the pool. [`run!`] writes the closure. The operation runs to its end even if
    /// the caller drops this future.
    pub(super) async fn run<T, Run>(
        &self,
        operation: impl FnOnce(MssqlOperations) -> Run,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Run: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let task = self.pool.runtime.spawn(operation(self.clone()));
        task.await.map_err(|error| ended_early(&error))?
    }

    /// Probes the database, on the runtime of the pool. Dropping this future ends the probe.
    pub(super) async fn probe(&self, sql: &'static str) -> Result<(), StoreError> {
        let pool = self.pool.clone();
        let task = self
            .pool
            .runtime
            .spawn(async move { pool.probe(sql).await });
        AbortOnDropHandle::new(task)
            .await
            .map_err(|error| ended_early(&error))?
    }
}

fn ended_early(error: &JoinError) -> StoreError {
    StoreError::Bug(format!("an operation ended early: {error}"))
}

/// Runs one of the operations of [`MssqlOperations`] by [`MssqlOperations::run`].
macro_rules! run {
    ($operations:expr, $operation:ident($($argument:expr),*)) => {
        $operations
            .run(async move |operations: MssqlOperations| operations.$operation($($argument),*).await)
            .await
    };
}
pub(super) use run;

/// Implements a trait of the contract. Behind the methods that are written out comes a list of those that run the operation of their
/// name. `(&)` marks an argument that the operation takes by reference.
macro_rules! implement {
    ($contract:ident for $store:ident { $($written:tt)* }
    $($name:ident($($(($by:tt))? $argument:ident: $type:ty),*) -> $result:ty;)*) => {
        #[async_trait]
        impl $contract for $store {
            $($written)*

            $(async fn $name(&self, $($argument: $type),*) -> Result<$result, StoreError> {
                run!(self.operations, $name($($($by)? $argument),*))
            })*
        }
    };
}
pub(super) use implement;
