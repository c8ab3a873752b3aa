//! Files that go back in time while a store has them open.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::queue::QueueSpec;
use lease_broker_store::sqlite::{SqliteStore, back_up, restore, system_clock};
use lease_broker_store::{Instance, StoreError};
use rusqlite::Connection;
use rusqlite::backup::Backup;
use uuid::Uuid;

use crate::harness::fixture::{Broker, new_item, queue};

/// The store checks its files at most this often.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

fn spec() -> QueueSpec {
    let mut spec = queue("item");
    spec.managed_columns = Some(vec![("payload".to_owned(), "TEXT".to_owned())]);
    spec
}

fn open(file: &Path) -> Result<Broker, StoreError> {
    let store = SqliteStore::open(file, &[spec()], system_clock())?;
    Ok(Broker::new(Arc::new(store)))
}

/// A folder with a database file, a store on it, and a copy of the file as it was at first.
struct Site {
    folder: tempfile::TempDir,
    broker: Broker,
}

impl Site {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let broker = open(&folder.path().join("queue.db")).expect("open");
        let site = Self { folder, broker };
        site.work().await;
        site.copy("queue.db", "old.db");
        site.work().await;
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Announces the broker, adds an item, and copies the log into the file.
    async fn work(&self) {
        announce(&self.broker).await.expect("announced");
        self.broker.enqueue(new_item(&[])).await;
        let other = Connection::open(self.path("queue.db")).expect("open");
        other
            .query_row("PRAGMA wal_checkpoint", [], |_| Ok(()))
            .expect("checkpoint");
        tokio::time::sleep(CHECK_INTERVAL).await;
        self.broker.enqueue(new_item(&[])).await;
    }

    /// Copies a file in another process. In this one it would end the locks of SQLite.
    fn copy(&self, from: &str, to: &str) {
        let copied = Command::new("cp")
            .args([self.path(from), self.path(to)])
            .status();
        assert!(copied.expect("cp runs").success());
    }
}

async fn announce(broker: &Broker) -> Result<Vec<Instance>, StoreError> {
    let instance = Instance {
        id: Uuid::new_v4(),
        version: "0.2.0".to_owned(),
        address: "a:1".to_owned(),
        draining: true,
        settings: [].into(),
        activity: [].into(),
    };
    broker.store.announce(instance.into()).await
}

async fn assert_stopped(broker: &Broker) {
    tokio::time::sleep(CHECK_INTERVAL).await;
    for _ in 0..2 {
        match broker.try_enqueue(vec![new_item(&[])]).await {
            Err(StoreError::Io(problem)) => {
                assert!(problem.contains("went back in time"), "{problem}");
                assert!(problem.contains("lease-broker restore"), "{problem}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn older_file_copied_over_the_open_one_stops_the_store() {
    let site = Site::new().await;
    site.copy("old.db", "queue.db");
    assert_stopped(&site.broker).await;
}

#[tokio::test]
async fn older_state_restored_through_sqlite_stops_the_store() {
    let site = Site::new().await;
    let old = Connection::open(site.path("old.db")).expect("open");
    let mut live = Connection::open(site.path("queue.db")).expect("open");
    let backup = Backup::new(&old, &mut live).expect("a backup");
    backup
        .run_to_completion(100, Duration::from_millis(1), None)
        .expect("restored");
    let announced = announce(&site.broker).await;
    assert!(matches!(announced, Err(StoreError::Io(_))), "{announced:?}");
    assert_stopped(&site.broker).await;
}

#[tokio::test]
async fn backup_copied_over_the_restored_file_stops_the_store() {
    let site = Site::new().await;
    back_up(&site.path("queue.db"), &site.path("backup.db")).expect("a backup");
    let restored = site.path("restored.db");
    restore(&restored, &site.path("backup.db"), &[spec()]).expect("restored");
    let broker = open(&restored).expect("open");
    announce(&broker).await.expect("announced");
    tokio::time::sleep(CHECK_INTERVAL).await;
    broker.enqueue(new_item(&[])).await;
    // All that the broker has written is in the log.
    site.copy("backup.db", "restored.db");
    assert_stopped(&broker).await;
}

#[tokio::test]
async fn vacuum_does_not_stop_the_store() {
    let site = Site::new().await;
    let other = Connection::open(site.path("queue.db")).expect("open");
    // The tables move to other pages.
    other
        .execute_batch("DROP TABLE lease_broker_state; VACUUM")
        .expect("VACUUM");
    drop(other);
    for _ in 0..3 {
        site.work().await;
    }
}

#[tokio::test]
async fn backup_of_an_open_file_is_not_opened() {
    let site = Site::new().await;
    back_up(&site.path("queue.db"), &site.path("backup.db")).expect("a backup");
    site.work().await;
    match open(&site.path("backup.db")) {
        Err(StoreError::Io(problem)) => assert!(problem.contains("is a backup"), "{problem}"),
        other => panic!("{:?}", other.err()),
    }
}
