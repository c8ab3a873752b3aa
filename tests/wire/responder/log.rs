//! What happened at the responder, in order.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::request::Request;
use crate::timeout::with_timeout;

/// Something that happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Accepted,
    /// A login came, inside TLS or in the clear.
    Login {
        encrypted: bool,
    },
    Request(Request),
    /// The broker took a statement back.
    Attention,
    Closed,
}

/// An event, and the number of its connection, from 0 on.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) connection: usize,
    pub(crate) event: Event,
}

#[derive(Clone, Default)]
pub(crate) struct Log {
    entries: Arc<Mutex<Vec<Entry>>>,
    length: watch::Sender<usize>,
}

impl Log {
    pub(super) fn add(&self, connection: usize, event: Event) {
        let mut entries = self.entries.lock().expect("the log");
        entries.push(Entry { connection, event });
        self.length.send_replace(entries.len());
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().expect("the log").clone()
    }

    /// Waits until the log is as it should be.
    pub(crate) async fn until(&self, is: impl Fn(&[Entry]) -> bool) {
        let mut length = self.length.subscribe();
        with_timeout(length.wait_for(|_| is(&self.entries())))
            .await
            .expect("the log is kept");
    }
}
