//! Readers of a file that no broker uses, or that a broker begins to use while they read.

use std::fs;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_store::sqlite::{SqliteReader, SqliteStore, system_clock};
use lease_broker_store::{Browse as _, Leases as _, QueueIndex};
use lease_broker_value::Value;
use rusqlite::Connection;

use crate::harness::errors::unavailable;
use crate::harness::fixture::{new_item, queue};

const QUEUE: QueueIndex = QueueIndex(0);

/// Returns a managed queue, whose table a store creates.
fn spec() -> lease_broker_model::queue::QueueSpec {
    let mut spec = queue("mail");
    spec.managed_columns = Some(vec![("body".to_owned(), "TEXT".to_owned())]);
    spec
}

async fn ready(reader: &SqliteReader) -> u64 {
    let stats = reader.stats(QUEUE).await.expect("stats");
    stats.count_of(State::Ready)
}

#[tokio::test]
async fn reader_follows_a_broker_that_starts_later() {
    let folder = tempfile::tempdir().expect("a folder");
    // Characters that a URI would take for its own.
    let path = folder.path().join("q ?immutable=0#1%41&.db");
    let open = || SqliteStore::open(&path, &[spec()], system_clock()).expect("a store");
    drop(open());
    let companions = || fs::read_dir(folder.path()).expect("the folder").count() - 1;
    // The store's last connection closes on its writer thread.
    while companions() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let reader = SqliteReader::open(&path, &[spec()], system_clock()).expect("a reader");
    assert_eq!((ready(&reader).await, companions()), (0, 0));
    let store = open();
    let body = Value::Text("x".to_owned());
    for items in 1..=2 {
        let item = new_item(&[("body", body.clone())]);
        let added = store.enqueue(QUEUE, [item].into()).await;
        added.expect("an item");
        assert_eq!(ready(&reader).await, items);
    }
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    let connection = Connection::open(&path).expect("a connection");
    let checkpointed = connection.query_row(checkpoint, [], |row| row.get::<_, i64>(0));
    checkpointed.expect(checkpoint);
    drop((store, connection));
    assert_eq!(ready(&reader).await, 2);
}

#[tokio::test]
async fn file_that_is_locked_for_readers_is_an_outage() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("q.db");
    drop(SqliteStore::open(&path, &[spec()], system_clock()).expect("a store"));
    let other = Connection::open(&path).expect("a connection");
    let lock = "PRAGMA journal_mode = delete; BEGIN EXCLUSIVE";
    other
        .busy_timeout(Duration::from_secs(20))
        .and_then(|()| other.execute_batch(lock))
        .expect(lock);
    let outage = unavailable(SqliteReader::open(&path, &[spec()], system_clock()).map(drop));
    assert!(outage.reason.contains("also for readers"), "{outage}");
}
