//! The connections of a store to its database server, for metrics.

use lease_broker_model::named_enum;

/// The connections of a store, and the number of operations that had trouble with them since the store was opened. A store
/// without a server has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// Open connections that wait for an operation.
    pub idle: usize,
    /// Connections that operations use.
    pub used: usize,
    /// The maximum number of connections.
    pub max: usize,
    /// Operations that wait for a connection.
    pub waiting: usize,
    /// Operations that got no connection in time.
    pub timeouts: u64,
    /// Operations that were run again, by [`RetryReason`].
    pub retries: [u64; RetryReason::ALL.len()],
}

named_enum! {
    /// The reason why a store runs an operation again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RetryReason {
        /// The server chose it as the victim of a deadlock.
        Deadlock = "deadlock",
        /// A lock was not free in time, or the server did not answer in time.
        Timeout = "timeout",
        /// The connection broke, or the server refused a login for the moment.
        Connection = "connection",
        /// Any other conflict or shortage that passes.
        Other = "other",
    }
}
