//! The connections of a store to its database server, for metrics.

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

/// The reason why a store runs an operation again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// The server chose it as the victim of a deadlock.
    Deadlock,
    /// A lock was not free in time, or the server did not answer in time.
    Timeout,
    /// The connection broke, or the server refused a login for the moment.
    Connection,
    /// Any other conflict or shortage that passes.
    Other,
}

impl RetryReason {
    /// Every reason, in the order of declaration.
    pub const ALL: [Self; 4] = [Self::Deadlock, Self::Timeout, Self::Connection, Self::Other];

    /// Returns the name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deadlock => "deadlock",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Other => "other",
        }
    }
}
