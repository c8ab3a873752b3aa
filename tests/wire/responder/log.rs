//! The log of the scripted server: all events of its connections, in order.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::request::Request;
use crate::support::timeout::with_timeout;

/// An event on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Accepted,
    /// A login arrived.
    Login {
        encrypted: bool,
    },
    Request(Request),
    /// The broker cancelled a statement.
    Attention,
    Closed,
}

/// An event and the number of its connection, counted from 0.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) connection: usize,
    pub(crate) event: Event,
}

#[derive(Clone, Default)]
pub(crate) struct Log {
    entries: Arc<Mutex<Vec<Entry>>>,
    changed: watch::Sender<()>,
}

impl Log {
    pub(super) fn add(&self, connection: usize, event: Event) {
        let entry = Entry { connection, event };
        self.entries.lock().expect("the log").push(entry);
        // The lock is free again: `until` takes the lock of the channel first, and then this one.
        self.changed.send_replace(());
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().expect("the log").clone()
    }

    /// Waits until the condition holds for the log.
    pub(crate) async fn until(&self, condition: impl Fn(&[Entry]) -> bool) {
        let mut changed = self.changed.subscribe();
        with_timeout(changed.wait_for(|()| condition(&self.entries())))
            .await
            .expect("the log is kept");
    }
}
