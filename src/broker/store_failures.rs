//! The failures of the store: the last one, and their number by cause.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use lease_broker_store::{OutageCause, StoreError};
use parking_lot::Mutex;

/// A failure of the store.
#[derive(Clone, Debug)]
pub struct StoreFailure {
    /// The cause, for operators. It can name hosts, files and statements.
    pub reason: String,
    /// Its kind.
    pub cause: OutageCause,
    /// When it occurred.
    pub time: SystemTime,
}

/// The failures since the start.
#[derive(Default)]
pub(super) struct StoreFailures {
    last: Mutex<Option<StoreFailure>>,
    /// In the order of [`OutageCause::ALL`].
    counts: [AtomicU64; OutageCause::ALL.len()],
}

impl StoreFailures {
    /// Notes an error. Returns whether it says that the store is not available. Other errors are not noted.
    pub(super) fn note(&self, error: &StoreError) -> bool {
        let is_outage = matches!(error, StoreError::Unavailable(_) | StoreError::Io(_));
        if is_outage {
            self.note_outage(error);
        }
        is_outage
    }

    /// Notes an error, of any kind, after which the store counts as not available.
    pub(super) fn note_outage(&self, error: &StoreError) {
        let (reason, cause) = match error {
            StoreError::Unavailable(outage) => (outage.to_string(), outage.cause),
            StoreError::Io(reason) => (reason.clone(), OutageCause::File),
            other => (other.to_string(), OutageCause::Other),
        };
        self.counts[cause as usize].fetch_add(1, Ordering::Relaxed);
        let failure = StoreFailure {
            reason,
            cause,
            time: SystemTime::now(),
        };
        *self.last.lock() = Some(failure);
    }

    /// Returns the last failure. `None`: there was none.
    pub(super) fn last(&self) -> Option<StoreFailure> {
        self.last.lock().clone()
    }

    /// Returns the number of failures of a kind.
    pub(super) fn count(&self, cause: OutageCause) -> u64 {
        self.counts[cause as usize].load(Ordering::Relaxed)
    }
}
