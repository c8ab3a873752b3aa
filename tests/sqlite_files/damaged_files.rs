//! Files that are not a database, and databases with damaged pages.

use std::fs;
use std::path::Path;

use lease_broker_store::sqlite::{SqliteSchema, SqliteStore, system_clock};
use lease_broker_store::{Leases as _, QueueIndex, Store as _, StoreError};

use crate::harness::Harness as _;
use crate::harness::fixture::{Fixture, call, queue};
use crate::harness::sqlite::SqliteHarness;

/// Expects that a store and a schema refuse the file with an I/O error. Returns the error text.
fn refusal(path: &Path) -> String {
    let opened = SqliteStore::open(path, &[queue("item")], system_clock());
    let Err(StoreError::Io(text)) = opened.map(|_| ()) else {
        panic!("the store did not refuse the file with an I/O error");
    };
    let Err(StoreError::Io(_)) = SqliteSchema::open(path).map(|_| ()) else {
        panic!("the schema did not refuse the file with an I/O error");
    };
    text
}

#[test]
fn text_file_is_refused() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("notes.txt");
    let text = "This is no database.\n".repeat(200);
    fs::write(&path, &text).expect("write");
    let error = refusal(&path);
    assert!(
        error.contains("notes.txt") && error.contains("not an SQLite database"),
        "{error}"
    );
    assert_eq!(
        fs::read_to_string(&path).expect("read"),
        text,
        "the file was changed"
    );
}

#[test]
fn folder_and_file_in_a_missing_folder_cannot_be_opened() {
    let folder = tempfile::tempdir().expect("tempdir");
    refusal(folder.path());
    let error = refusal(&folder.path().join("missing/queue.db"));
    assert!(error.contains("missing"), "{error}");
}

/// Creates a database file with a queue of 500 rows and returns its bytes.
async fn intact_file() -> (Fixture<SqliteHarness>, Vec<u8>) {
    let fixture = Fixture::<SqliteHarness>::items(0).await;
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 500)
        INSERT INTO item (id, payload) SELECT n, hex(randomblob(100)) FROM n;
        PRAGMA wal_checkpoint(TRUNCATE)";
    fixture.harness.execute(fill);
    let bytes = fs::read(fixture.harness.path()).expect("read");
    (fixture, bytes)
}

/// Opens the file, reads statistics and claims. Returns the first error.
async fn first_error(path: &Path) -> Option<StoreError> {
    let store = match SqliteStore::open(path, &[queue("item")], system_clock()) {
        Ok(store) => store,
        Err(error) => return Some(error),
    };
    let queue = QueueIndex(0);
    if let Err(error) = store.reads().stats(queue).await {
        return Some(error);
    }
    let calls = [call("worker", 1_000)];
    store.claim(queue, calls.into(), usize::MAX).await.err()
}

#[tokio::test]
async fn damaged_file_is_reported_and_is_no_bug() {
    let (fixture, bytes) = intact_file().await;
    let folder = fixture.harness.path();
    let path = folder.with_file_name("damaged.db");
    let page = 4_096;
    assert!(bytes.len() > 10 * page);
    // First one page is damaged at a time, except page 1. Then all other pages are damaged, and then the file is cut in half.
    let mut reported = 0;
    for offset in (page..bytes.len()).step_by(page) {
        let mut damaged = bytes.clone();
        damaged[offset..offset + page].fill(0xab);
        fs::write(&path, damaged).expect("write");
        if let Some(error) = first_error(&path).await {
            assert!(
                matches!(error, StoreError::Io(_)),
                "page at {offset}: {error:?}"
            );
            reported += 1;
        }
        remove(&path);
    }
    assert!(reported > 0);
    for damaged in [
        [&bytes[..page], &*vec![0xab; bytes.len() - page]].concat(),
        bytes[..bytes.len() / 2].to_vec(),
    ] {
        fs::write(&path, damaged).expect("write");
        let error = first_error(&path).await.expect("reported");
        assert!(matches!(error, StoreError::Io(_)), "{error:?}");
        assert!(error.to_string().contains("damaged"), "{error}");
        remove(&path);
    }
}

/// Removes the file and its log. The store may still have them open.
fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = fs::remove_file(name);
    }
}

#[tokio::test]
async fn empty_file_becomes_a_new_database() {
    let harness = SqliteHarness::start().await;
    fs::write(harness.path(), "").expect("write");
    assert!(harness.open(&[]).await.is_ok());
}
