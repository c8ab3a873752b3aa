//! Counts the connections that were refused.

use std::sync::atomic::{AtomicU64, Ordering};

use lease_broker_model::named_enum;

named_enum! {
    /// Why a connection was refused. Metrics have the names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RefusedConnection {
        /// `server.max_connections` were open.
        Full = "max_connections",
        /// Its TLS handshake failed, or was not complete in time.
        Handshake = "handshake",
        /// It had made no call yet, and another connection needed its place.
        Displaced = "displaced",
    }
}

/// The counts of a server's connections.
#[derive(Default)]
pub struct ConnectionCounts([AtomicU64; RefusedConnection::ALL.len()]);

impl ConnectionCounts {
    /// Returns the number of connections that were refused for this reason.
    pub fn refused(&self, reason: RefusedConnection) -> u64 {
        self.0[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts a refused connection.
    pub(super) fn refuse(&self, reason: RefusedConnection) {
        self.0[reason as usize].fetch_add(1, Ordering::Relaxed);
    }
}
