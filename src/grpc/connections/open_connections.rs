//! The open connections of a server, for the checks that end those whose client has lost a right or its certificate.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::connection::Connection;

/// The open connections.
#[derive(Default)]
pub(in crate::grpc) struct OpenConnections(Mutex<Vec<Weak<Connection>>>);

impl OpenConnections {
    /// Adds a connection. Must be called before its first call is admitted. Connections that have ended are removed when the list
    /// would grow.
    pub(super) fn add(&self, connection: &Arc<Connection>) {
        let mut connections = self.0.lock();
        if connections.len() == connections.capacity() {
            connections.retain(|connection| connection.strong_count() > 0);
        }
        connections.push(Arc::downgrade(connection));
    }

    /// Returns the connections that are open now and do not end yet.
    pub(in crate::grpc) fn all(&self) -> impl Iterator<Item = Arc<Connection>> + use<> {
        let connections = self.0.lock().clone().into_iter();
        let open = connections.filter_map(|connection| connection.upgrade());
        open.filter(|connection| !connection.is_ending())
    }
}
