//! Full and read-only disks.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::sqlite::{SqliteStore, back_up, restore, system_clock};
use lease_broker_store::{Applied, OutageCause, Store, StoreError};
use lease_broker_value::Value;

use crate::harness::errors::unavailable;
use crate::harness::fixture::{Broker, new_item, queue};
use crate::sqlite_files::small_disk::SmallDisk;
use crate::support::skipped::skipped;

fn managed() -> QueueSpec {
    let mut spec = queue("item");
    spec.managed_columns = Some(vec![("payload".to_owned(), "BLOB".to_owned())]);
    spec
}

fn open(path: &Path) -> Result<Broker, StoreError> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path, &[managed()], system_clock())?);
    Ok(Broker::new(store))
}

#[tokio::test]
async fn full_disk_loses_nothing_and_the_store_recovers() {
    let Some(disk) = SmallDisk::mount("2m") else {
        skipped("full disk: this machine does not permit mounting a small file system");
        return;
    };
    let broker = open(&disk.path().join("queue.db")).expect("open");
    let big = || new_item(&[("payload", Value::Bytes(vec![1; 50_000]))]);
    let mut added = 0;
    let error = loop {
        match broker.try_enqueue(vec![big(), big()]).await {
            Ok(keys) => added += keys.len() as u64,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("no space is left"), "{error}");
    assert_eq!(error.applied(), Applied::No);
    for _ in 0..3 {
        let error = broker
            .try_enqueue(vec![big(), big()])
            .await
            .expect_err("still full");
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    }
    assert!(added > 0);
    assert_eq!(broker.counts().await, [added, 0, 0, 0, 0]);
    disk.remount("size=16m");
    broker
        .try_enqueue(vec![big(), big()])
        .await
        .expect("space after the remount");
    let items = broker.claim(1_000).await;
    assert_eq!(items.len() as u64, added + 2);
    let lease = &items[0].lease;
    assert_eq!(broker.complete(lease).await, Some(State::Completed));
    assert_eq!(broker.store.probe().await, Ok(()));
}

#[test]
fn start_on_a_full_disk_names_the_cause() {
    let Some(disk) = SmallDisk::mount("1m") else {
        skipped("full disk: this machine does not permit mounting a small file system");
        return;
    };
    let path = disk.path().join("queue.db");
    let database = rusqlite::Connection::open(&path).expect("a file");
    database
        .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE other (id INTEGER PRIMARY KEY)")
        .expect("a table");
    drop(database);
    let mut filler = std::fs::File::create(disk.path().join("filler")).expect("a file");
    while filler.write_all(&[1; 4096]).is_ok() {}
    let outage = unavailable(open(&path).map(drop));
    assert_eq!(outage.cause, OutageCause::NoSpace, "{outage:?}");
    assert!(outage.reason.contains("no space is left"), "{outage:?}");
}

#[tokio::test]
async fn restore_names_the_file_for_which_there_is_no_space() {
    let Some(disk) = SmallDisk::mount("1m") else {
        skipped("full disk: this machine does not permit mounting a small file system");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let [queue, backup] = ["queue.db", "backup.db"].map(|name| folder.path().join(name));
    let broker = open(&queue).expect("open");
    let big = new_item(&[("payload", Value::Bytes(vec![1; 2_000_000]))]);
    broker.enqueue(big).await;
    back_up(&queue, &backup).expect("a backup");
    let error = restore(&disk.path().join("queue.db"), &backup, &[managed()]);
    let error = error.expect_err("no space").to_string();
    assert!(
        error.contains("queue.db-unfinished-") && error.contains(": no space"),
        "{error}"
    );
}

#[test]
fn read_only_file_and_folder_are_refused() {
    let Some(disk) = SmallDisk::mount("8m") else {
        skipped(
            "read-only disk: this machine does not permit mounting a file system, and file permissions do not stop root",
        );
        return;
    };
    let file = disk.path().join("queue.db");
    let connection = rusqlite::Connection::open(&file).expect("open");
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY)";
    connection.execute_batch(table).expect(table);
    drop(connection);
    disk.remount("ro");
    for path in [file, disk.path().join("new.db")] {
        let Err(error) = open(&path) else {
            panic!("not refused");
        };
        assert!(matches!(error, StoreError::Io(_)), "{error:?}");
        let name = path.file_name().expect("a name").to_string_lossy();
        assert!(error.to_string().contains(&*name), "{error}");
    }
}
