//! Files that another program deletes or replaces while a store has them open.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::queue::QueueSpec;
use lease_broker_store::StoreError;
use lease_broker_store::sqlite::{SqliteStore, system_clock};

use crate::harness::fixture::{Broker, keys, new_item, queue, text};

/// The store checks its files at most this often.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

fn spec() -> QueueSpec {
    let mut spec = queue("item");
    spec.managed_columns = Some(vec![("payload".to_owned(), "TEXT".to_owned())]);
    spec
}

fn open(file: &Path) -> Broker {
    let store = SqliteStore::open(file, &[spec()], system_clock());
    Broker::new(Arc::new(store.expect("open")))
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Expects that the store refuses every write from now on, and names the lost file.
async fn assert_stopped(broker: &Broker, name: &str) {
    tokio::time::sleep(CHECK_INTERVAL).await;
    for _ in 0..2 {
        let error = broker.try_enqueue(vec![new_item(&[])]).await;
        let Err(StoreError::Io(problem)) = error else {
            panic!("{error:?}");
        };
        assert!(problem.contains(name), "{problem}");
    }
    let probe = broker.store.probe().await;
    assert!(matches!(probe, Err(StoreError::Io(_))), "{probe:?}");
}

#[tokio::test]
async fn deleted_log_stops_the_store_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("queue.db");
    let broker = open(&file);
    let item = || new_item(&[("payload", text("kept"))]);
    broker
        .try_enqueue(vec![item(), item(), item()])
        .await
        .expect("enqueue");
    let log = with_suffix(&file, "-wal");
    assert!(fs::metadata(&log).expect("a log").len() > 0);
    fs::remove_file(&log).expect("removed");
    assert_stopped(&broker, "-wal").await;
    drop(broker);
    let connection = rusqlite::Connection::open(&file).expect("open");
    let check = "PRAGMA integrity_check";
    let checked: String = connection
        .query_row(check, [], |row| row.get(0))
        .expect(check);
    assert_eq!(checked, "ok");
    drop(connection);
    assert_eq!(keys(&open(&file).claim(9).await), ["1", "2", "3"]);
}

#[tokio::test]
async fn replaced_database_file_stops_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("queue.db");
    let broker = open(&file);
    let copy = with_suffix(&file, "-copy");
    fs::copy(&file, &copy).expect("copied");
    fs::rename(&copy, &file).expect("replaced");
    assert_stopped(&broker, "the database file").await;
    assert_stopped(&broker, "restore --in-place").await;
}

#[tokio::test]
async fn other_brokers_that_stop_leave_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("queue.db");
    let broker = open(&file);
    for _ in 0..3 {
        let other = open(&file);
        other
            .try_enqueue(vec![new_item(&[])])
            .await
            .expect("enqueue");
        drop(other);
        tokio::time::sleep(CHECK_INTERVAL).await;
        broker
            .try_enqueue(vec![new_item(&[])])
            .await
            .expect("enqueue");
    }
}
