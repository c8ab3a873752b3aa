//! The task that reads the secrets of lease ids again, so that a broker knows those that an operator has added.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lease_broker_store::{Store, StoreError};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time between two reads.
const INTERVAL: Duration = Duration::from_secs(30);
/// The shortest time between two reads, if lease ids with unknown secrets arrive.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The time for which a secret that was not in the database is known to be missing. It is longer than the delay after which
/// a caller sends such an id again.
const MISSING_TIME: Duration = Duration::from_secs(3);

/// Reads the secrets at intervals, and soon if a lease id needs it.
pub(super) struct SecretReader {
    store: Arc<dyn Store>,
    wanted: Notify,
    unknown: Mutex<Unknown>,
}

/// The numbers of secrets that lease ids had and the broker did not know.
#[derive(Default)]
struct Unknown {
    /// Those that no read has looked for yet.
    asked: BTreeSet<u8>,
    /// Those that were not in the database, with the time of the read.
    missing: BTreeMap<u8, Instant>,
}

impl SecretReader {
    /// Creates the reader of a store.
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            wanted: Notify::new(),
            unknown: Mutex::default(),
        }
    }

    /// Reads the secrets until `stop` is cancelled.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            loop {
                let _ = tokio::time::timeout(INTERVAL, self.wanted.notified()).await;
                let asked = std::mem::take(&mut self.unknown.lock().asked);
                match self.store.read_secrets().await {
                    Ok(()) => self.note_missing(asked),
                    Err(error) => {
                        let bug = matches!(error, StoreError::Bug(_));
                        tracing::warn!(%error, bug, "secrets were not read; trying again later");
                    }
                }
                tokio::time::sleep(MIN_INTERVAL).await;
            }
        })
        .await;
    }

    /// Returns true if the secrets will be read soon, because the broker does not know the one with this number. Returns false
    /// if a read has just found that it does not exist.
    pub(super) fn reads_soon(&self, number: u8) -> bool {
        let mut unknown = self.unknown.lock();
        let read = unknown.missing.get(&number);
        if read.is_some_and(|read| read.elapsed() < MISSING_TIME) {
            return false;
        }
        unknown.asked.insert(number);
        self.wanted.notify_one();
        true
    }

    /// Remembers those of the numbers for which the read has found no secret.
    fn note_missing(&self, asked: BTreeSet<u8>) {
        let (secrets, now) = (self.store.signing_secrets(), Instant::now());
        let missing = asked.into_iter().filter(|number| !secrets.accepts(*number));
        self.unknown
            .lock()
            .missing
            .extend(missing.map(|number| (number, now)));
    }
}
