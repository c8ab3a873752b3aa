//! The contract for what keeps a database in order: secrets, retention, the list of brokers, and the probe.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::queue_index::QueueIndex;
use crate::error::StoreError;
use crate::instance::Instance;
use crate::purge::{ArchiveCutoff, PurgeStep, Purged, RetentionTurn};

/// Keeps a database with leases in order.
///
/// The rules of the [module](crate) and the errors of [`Leases`](super::Leases) hold here too.
#[async_trait]
pub trait Upkeep: Send + Sync + 'static {
    /// Reads the secrets that sign lease ids again.
    async fn read_secrets(&self) -> Result<(), StoreError>;

    /// Adds a secret that signs lease ids, and returns its number. Ids that the others have signed are valid for
    /// `accept_old_for` more. Secrets that have retired before are deleted, except secret 0. Two calls at the same time can
    /// make one of them fail.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if all 255 numbers are in use.
    async fn rotate_secrets(&self, accept_old_for: Duration) -> Result<u8, StoreError>;

    /// Deletes remembered requests of all queues whose time has passed: up to `limit`, and on a database server no more
    /// than those of 2,000 items. Returns their number. Zero: none is left.
    async fn forget_requests(&self, limit: usize) -> Result<usize, StoreError>;

    /// Visits the next rows in the order of the key, and deletes or counts the old items among them: those that have been
    /// completed or dead for long. An item whose age is unknown is not old.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if a constraint refuses the deletion, such as a foreign key. No item was deleted then.
    async fn purge(&self, queue: QueueIndex, step: PurgeStep) -> Result<Purged, StoreError>;

    /// Deletes up to `limit` rows of the archive that were completed before the cutoff. Returns their number.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the queue has no archive, or one without an index on the time.
    async fn purge_archive(
        &self,
        queue: QueueIndex,
        cutoff: ArchiveCutoff,
        limit: usize,
    ) -> Result<usize, StoreError>;

    /// Counts the rows of the archive that were completed before a time, in milliseconds since 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// Those of [`Upkeep::purge_archive`].
    async fn count_archived(&self, queue: QueueIndex, before: i64) -> Result<u64, StoreError>;

    /// Makes `broker` the only one that deletes old items of the queue for `duration` from now, unless another broker has
    /// the turn. A broker that has the turn can take it again, and then the new duration counts. `duration`: at most
    /// [`RetentionTurn::LONGEST`].
    async fn take_retention_turn(
        &self,
        queue: QueueIndex,
        broker: Uuid,
        duration: Duration,
    ) -> Result<RetentionTurn, StoreError>;

    /// Lists a broker process as running now, with its present settings and activity, and deletes the rows of processes that have not been listed for a day. Returns the
    /// other processes that were listed within the last 15 s.
    async fn announce(&self, instance: Arc<Instance>) -> Result<Vec<Instance>, StoreError>;

    /// Returns what keeps the database from answering, if this can be seen without its answer: the process that holds the write lock
    /// of a file.
    fn obstacle(&self) -> Option<String> {
        None
    }

    /// Checks that the database answers and accepts writes.
    async fn probe(&self) -> Result<(), StoreError>;
}
